package picture

import "strings"

// plain makes words fit for a Mermaid diagram, where some characters mean something.
func plain(words string) string {
	return strings.NewReplacer("#", "#35;", ";", "#59;", "<", "#lt;", ">", "#gt;", "\n", " ").Replace(words)
}
