"""Exit statuses.

========  =====================================================================
status    meaning
========  =====================================================================
0         done
1         no result: nothing found, gate not met, files differ
2         usage error; a change without ``--yes`` and without a terminal
3         unreachable or timed out
4         refused: the peer responded with an error code, or a lock is taken
5         partial: some targets failed, or the result was truncated
6         not authenticated or not permitted
7         a store file is damaged or unreadable
8         the state moved since the plan was made, or the read-back differs
70        a defect of the program itself
130       interrupted
========  =====================================================================

The verbs of ``check`` exit with 0 ok, 1 warning, 2 critical, 3 unknown instead; a failure of the
program, such as an invalid command line, is unknown there: 2 would raise a false alarm.
"""

DONE = 0
NO = 1
USAGE = 2
UNREACHABLE = 3
REFUSED = 4
PARTLY = 5
NOT_PERMITTED = 6
DAMAGED = 7
MOVED = 8
DEFECT = 70
INTERRUPTED = 130

CHECK_NOUN = "check"
CHECK_UNKNOWN = 3
