package snapshotapi

import (
	"embed"
	"strings"
)

//go:embed definitions/*.yaml
var files embed.FS

// Definitions returns the definitions of all kinds of snapshots, as a stream of YAML documents.
func Definitions() string {
	entries, err := files.ReadDir("definitions")
	if err != nil {
		panic(err) // embedded
	}
	var all strings.Builder
	for _, entry := range entries {
		text, err := files.ReadFile("definitions/" + entry.Name())
		if err != nil {
			panic(err) // embedded
		}
		all.Write(text) // each begins with a separator
	}
	return all.String()
}
