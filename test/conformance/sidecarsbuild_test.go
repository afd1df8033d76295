package conformance_test

import (
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// sidecarPackages are the programs of the module in the folder sidecars.
var sidecarPackages = []string{
	"github.com/kubernetes-csi/external-provisioner/v6/cmd/csi-provisioner",
	"github.com/kubernetes-csi/external-attacher/v4/cmd/csi-attacher",
	"github.com/kubernetes-csi/external-resizer/v2/cmd/csi-resizer",
	"github.com/kubernetes-csi/external-snapshotter/v8/cmd/csi-snapshotter",
	"github.com/kubernetes-csi/external-snapshotter/v8/cmd/snapshot-controller",
}

// buildSidecars builds the sidecars into a new folder below dir.
func buildSidecars(t testing.TB, dir string) string {
	t.Helper()
	folder := filepath.Join(dir, "sidecars")
	args := []string{"build", "-C", "sidecars", "-ldflags", "-s -w", "-o", folder + "/"}
	if out, err := exec.Command("go", append(args, sidecarPackages...)...).CombinedOutput(); err != nil {
		t.Fatalf("build sidecars: %v\n%s", err, out)
	}
	return folder
}

// compiledTwice are modules that this module and the sidecars use in different versions. Compiling
// them twice takes only seconds, because few packages import them.
var compiledTwice = []string{
	"github.com/container-storage-interface/spec", // the kubelet uses an older version than the sidecars
	"github.com/kubernetes-csi/csi-lib-utils",     // one package, of the provisioner's older version; see capdiff
}

// TestSidecarsShareWhatIsCompiled checks that the sidecars use the same module versions as this
// module. Otherwise client-go and its dependents would be compiled twice, which takes minutes.
func TestSidecarsShareWhatIsCompiled(t *testing.T) {
	here, theirs := versions(t, ".", "-test", "./..."), versions(t, "sidecars", sidecarPackages...)
	shared := 0
	for module, version := range theirs {
		want, ok := here[module]
		if !ok || slices.Contains(compiledTwice, module) {
			continue
		}
		shared++
		if version != want {
			t.Errorf("sidecars/go.mod: want replace %s => %[1]s %s, got %s", module, want, version)
		}
	}
	if shared < 50 {
		t.Errorf("%d shared modules of %d and %d, want more", shared, len(here), len(theirs))
	}
}

// versions returns the versions of the modules of packages and all their imports.
func versions(t *testing.T, folder string, packages ...string) map[string]string {
	t.Helper()
	const format = "{{with .Module}}{{.Path}} {{if .Replace}}{{.Replace.Version}}{{else}}{{.Version}}{{end}}{{end}}"
	out, err := exec.Command("go", append([]string{"list", "-C", folder, "-deps", "-f", format}, packages...)...).Output()
	if err != nil {
		t.Fatalf("go list in %s: %v", folder, err)
	}
	all := map[string]string{}
	for line := range strings.Lines(string(out)) {
		if module, version, ok := strings.Cut(strings.TrimSpace(line), " "); ok {
			all[module] = version
		}
	}
	return all
}
