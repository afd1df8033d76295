# Prints the failures in the outputs of test runs, after which a reader need not search for them:
# sh tools/failures.sh FILE...
awk '
	FNR == 1 { shown = 0 }
	/^[IWE][0-9][0-9][0-9][0-9] [0-9:.]+ / { next } # log lines of libraries
	/^[ \t]*--- FAIL|: outputs differ from|^panic:|^fatal error:|^WARNING: DATA RACE|^FAIL\t.*\[|\*\*\* \[|Error [0-9]+ \(ignored\)/ { shown = 60 }
	/^(ok|FAIL|PASS|=== |---? PASS|\?)/ && !/\[/ { shown = 0 }
	shown > 0 {
		if (!any++) print "failures:"
		print
		shown--
	}
' "$@"
