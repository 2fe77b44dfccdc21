"""Private helpers: errors, argument checks, files, process settings, console output."""
