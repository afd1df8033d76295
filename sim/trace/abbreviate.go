package trace

import "regexp"

// randomNames matches names made of random numbers.
var randomNames = regexp.MustCompile(`([0-9a-f]{8})(-[0-9a-f]{4}){3}-[0-9a-f]{12}|([0-9a-f]{8})[0-9a-f]{56}`)

// Abbreviate cuts UIDs and hashes after eight characters.
func Abbreviate(words string) string { return randomNames.ReplaceAllString(words, "$1$3") }
