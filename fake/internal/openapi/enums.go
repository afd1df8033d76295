package openapi

import (
	_ "embed" // for the tables
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
)

// descriptionsJSON are the descriptions of the real server that SwaggerDoc lacks or shortens.
//
//go:embed descriptions.json
var descriptionsJSON []byte

// enumsJSON are the values of the enumerated types and their descriptions, by type. Upstream states
// them in source comments.
//
//go:embed enums.json
var enumsJSON []byte

// read decodes embedded JSON.
func read[T any](data []byte) T {
	var out T
	if err := json.Unmarshal(data, &out); err != nil {
		panic("openapi: " + err.Error())
	}
	return out
}

// enums maps the names of enumerated types to their values with descriptions.
type enums map[string]map[string]string

func (e enums) of(t reflect.Type) map[string]string {
	t = deref(t)
	return e[strings.TrimPrefix(t.PkgPath(), "k8s.io/")+"."+t.Name()]
}

// values returns the values of a type, sorted. nil: anything.
func (e enums) values(t reflect.Type) []string { return slices.Sorted(maps.Keys(e.of(t))) }

// list returns the text that a field's description has about the values of its type.
//
// Upstream: k8s.io/kube-openapi/pkg/generators/enum.go DescriptionLines.
func (e enums) list(t reflect.Type) string {
	means := e.of(t)
	if means == nil {
		return ""
	}
	out := "\n\nPossible enum values:"
	for _, v := range e.values(t) {
		out += strings.TrimRight(fmt.Sprintf("\n - `%q` %s", v, means[v]), " ")
	}
	return out
}
