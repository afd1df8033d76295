package fake_test

import (
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// schemaMachinery are the packages that only fake/crd may link.
var schemaMachinery = []string{"k8s.io/apiextensions-apiserver", "k8s.io/apiserver", "github.com/google/cel-go"}

// Programs without custom resources do not link schema code.
func TestOnlyCRDLinksSchemaCode(t *testing.T) {
	seen := 0
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (path == "crd" || path == "admission"):
			return filepath.SkipDir
		case d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go"):
			return nil
		}
		f, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ImportsOnly)
		if err != nil {
			return err
		}
		seen++
		for _, spec := range f.Imports {
			imported, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				return err
			}
			for _, module := range append(schemaMachinery, "github.com/volsim/volsim/fake/crd", "github.com/volsim/volsim/fake/admission") {
				if imported == module || strings.HasPrefix(imported, module+"/") {
					t.Errorf("%s imports %s", path, imported)
				}
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if seen < 20 {
		t.Errorf("only %d files found", seen)
	}
}
