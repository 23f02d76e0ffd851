"""The Spark session of a run: choice of Java, start of the JVM, progress, class-data archive."""
