package envtest_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/volsim/volsim/envtest"
	"github.com/volsim/volsim/internal/testcheck"
)

// definition returns a definition, as YAML.
func definition(kind, more string) string {
	plural := strings.ToLower(kind) + "s"
	return `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: ` + plural + `.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {plural: ` + plural + `, kind: ` + kind + `}
  versions:
  - {name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}
` + more
}

// directory writes files into a new directory.
func directory(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		testcheck.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755))
		testcheck.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	return dir
}

func names(definitions []*apiextensionsv1.CustomResourceDefinition) []string {
	var all []string
	for _, d := range definitions {
		all = append(all, d.Name)
	}
	return all
}

func TestReadCRDFiles(t *testing.T) {
	dir := directory(t, map[string]string{
		"b.yml":      definition("Box", ""),
		"a.yaml":     "# first\n---" + definition("Apple", "") + "---\nkind: Namespace\n---" + definition("Anchor", ""),
		"c.json":     `{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"cats.example.com"},"spec":{"group":"example.com","names":{"kind":"Cat","plural":"cats"}}}`,
		"d.txt":      definition("Dog", ""),
		"e/e.yaml":   definition("Eagle", ""),
		"empty.yaml": "",
		"z.yaml":     definition("Box", "  preserveUnknownFields: false\n  conversion: {strategy: None}\n"),
	})
	for _, c := range []struct {
		name    string
		options envtest.CRDInstallOptions
		want    []string
	}{
		{"a directory", envtest.CRDInstallOptions{Paths: []string{dir}}, []string{"apples", "anchors", "boxs", "cats"}},
		{"a file", envtest.CRDInstallOptions{Paths: []string{filepath.Join(dir, "b.yml")}}, []string{"boxs"}},
		{"another file", envtest.CRDInstallOptions{Paths: []string{filepath.Join(dir, "d.txt")}}, nil},
		{"a missing path", envtest.CRDInstallOptions{Paths: []string{filepath.Join(dir, "missing"), filepath.Join(dir, "c.json")}}, []string{"cats"}},
		{"in addition", envtest.CRDInstallOptions{
			Paths: []string{filepath.Join(dir, "c.json")},
			CRDs:  []*apiextensionsv1.CustomResourceDefinition{{ObjectMeta: metav1.ObjectMeta{Name: "xs.example.com"}}},
		}, []string{"xs", "cats"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			testcheck.NoError(t, envtest.ReadCRDFiles(&c.options))
			got := names(c.options.CRDs)
			for i := range c.want {
				c.want[i] += ".example.com"
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("got %q, want %q", got, c.want)
			}
			if i := slices.Index(got, "boxs.example.com"); len(got) > 1 && i >= 0 && c.options.CRDs[i].Spec.Conversion == nil {
				t.Error("of two definitions with one name the earlier one was used")
			}
		})
	}
	for _, c := range []struct{ name, path, want string }{
		{"missing", filepath.Join(dir, "missing"), "no such file"},
		{"invalid", filepath.Join(directory(t, map[string]string{"x.yaml": "a: [\n"}), "x.yaml"), "x.yaml: "},
		{"of another type", directory(t, map[string]string{"x.yaml": "kind: CustomResourceDefinition\nspec: 1\n"}), "x.yaml: "},
	} {
		t.Run(c.name, func(t *testing.T) {
			err := envtest.ReadCRDFiles(&envtest.CRDInstallOptions{Paths: []string{c.path}, ErrorIfPathMissing: true})
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want an error with %q", err, c.want)
			}
		})
	}
}

// A missing path is ignored by default, as upstream does.
func TestMissingPath(t *testing.T) {
	start(t, &envtest.Environment{CRDDirectoryPaths: []string{"testdata/missing"}})
	strict := &envtest.Environment{CRDDirectoryPaths: []string{"testdata/missing"}, ErrorIfCRDPathMissing: true}
	if _, err := strict.Start(); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("got %v", err)
	}
	if strict.Cluster() != nil {
		t.Error("the cluster still runs")
	}
}

func TestInvalidDefinition(t *testing.T) {
	dir := directory(t, map[string]string{"x.yaml": strings.Replace(definition("Box", ""), "storage: true", "storage: false", 1)})
	_, err := (&envtest.Environment{CRDDirectoryPaths: []string{dir}}).Start()
	if !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), `install definition "boxs.example.com"`) {
		t.Errorf("got %v", err)
	}
}

// Definitions come from all four fields. Those of CRDs replace those of the same name in the
// options.
func TestDefinitionsOfAllFields(t *testing.T) {
	read := func(kind string) []*apiextensionsv1.CustomResourceDefinition {
		options := envtest.CRDInstallOptions{Paths: []string{directory(t, map[string]string{"x.yaml": definition(kind, "")})}}
		testcheck.NoError(t, envtest.ReadCRDFiles(&options))
		return options.CRDs
	}
	box := read("Box")
	box[0].Labels = map[string]string{"of": "CRDs"}
	path := directory(t, map[string]string{"x.yaml": definition("Dog", "")})
	e := &envtest.Environment{
		CRDs: box, CRDDirectoryPaths: []string{"testdata/crd", path},
		CRDInstallOptions: envtest.CRDInstallOptions{CRDs: append(read("Box"), read("Cat")...), Paths: []string{path}},
	}
	start(t, e)
	if got, want := names(e.CRDs), []string{"boxs", "cats", "dogs", "stores"}; !slices.Equal(got, []string{
		want[0] + ".example.com", want[1] + ".example.com", want[2] + ".example.com", want[3] + ".example.com",
	}) {
		t.Errorf("got %q", got)
	}
	if e.CRDs[0].Labels["of"] != "CRDs" {
		t.Error("the definition of CRDInstallOptions.CRDs was used")
	}
}

// Definitions that exist are updated; deleted ones take their objects with them.
func TestInstallAndUninstall(t *testing.T) {
	config := start(t, &envtest.Environment{})
	options := envtest.CRDInstallOptions{Paths: []string{"testdata/crd"}}
	installed, err := envtest.InstallCRDs(config, options)
	testcheck.NoError(t, err)
	_, err = storesOf(t, config).Create(t.Context(), newStore("photos"), metav1.CreateOptions{})
	testcheck.NoError(t, err)

	installed[0].Spec.Names.ShortNames = []string{"st"}
	updated, err := envtest.InstallCRDs(config, envtest.CRDInstallOptions{CRDs: installed})
	testcheck.NoError(t, err)
	if updated[0].Generation != 2 || updated[0].Kind != "CustomResourceDefinition" {
		t.Errorf("got %v", updated[0].ObjectMeta)
	}
	_, err = storesOf(t, config).Get(t.Context(), "photos", metav1.GetOptions{})
	testcheck.NoError(t, err)

	testcheck.NoError(t, envtest.UninstallCRDs(config, options))
	testcheck.NoError(t, envtest.UninstallCRDs(config, options))
	if _, err := storesOf(t, config).List(t.Context(), metav1.ListOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("got %v", err)
	}
	if err := envtest.WaitForCRDs(config, installed, options); err == nil || !strings.Contains(err.Error(), "not served") {
		t.Errorf("got %v", err)
	}
}

// The error of a definition that is not served has the reason.
func TestDefinitionWhoseNameIsTaken(t *testing.T) {
	config := start(t, &envtest.Environment{CRDDirectoryPaths: []string{"testdata/crd"}})
	dir := directory(t, map[string]string{
		"x.yaml": strings.ReplaceAll(definition("Store", ""), "plural: stores, kind: Store", "plural: shops, kind: Store"),
	})
	options := envtest.CRDInstallOptions{Paths: []string{dir}}
	testcheck.NoError(t, envtest.ReadCRDFiles(&options))
	options.Paths, options.CRDs[0].Name = nil, "shops.example.com"
	_, err := envtest.InstallCRDs(config, options)
	if err == nil || !strings.Contains(err.Error(), `version v1 is not served: "StoreList" is already in use`) {
		t.Errorf("got %v", err)
	}
}
