"""Cold data flow control: groups that read old messages from the disk are slowed down.

Messages far from the end of the log are probably not in memory; a group that reads many of them
takes the disk from the others. Per window of five seconds each group, and all groups together, may
read a limited number of cold bytes.
"""
