package trace

import "regexp"

// long are names that are made of random numbers.
var long = regexp.MustCompile(`([0-9a-f]{8})(-[0-9a-f]{4}){3}-[0-9a-f]{12}|([0-9a-f]{8})[0-9a-f]{56}`)

// Short cuts names that are made of random numbers, UIDs and hashes, after eight characters.
func Short(words string) string { return long.ReplaceAllString(words, "$1$3") }
