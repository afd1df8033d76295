package conformance_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
	"k8s.io/client-go/tools/clientcmd"
)

// kubectlVersion is the version that the kubectl built here reports.
const kubectlVersion = "v1.36.3"

// TestKubectl runs the scripts of testdata/kubectl: the kubectl program against a live cluster on
// the array, over HTTPS. Each script has its own cluster. The expected results were checked on a
// real server as far as that is possible without controllers.
func TestKubectl(t *testing.T) {
	bin := t.TempDir()
	build(t, filepath.Join(bin, "kubectl"), "./cmd/kubectl",
		"-ldflags", "-s -w -X k8s.io/component-base/version.gitVersion="+kubectlVersion+
			" -X k8s.io/component-base/version.gitMajor=1 -X k8s.io/component-base/version.gitMinor=36")
	testscript.Run(t, testscript.Params{
		Dir: filepath.Join("testdata", "kubectl"),
		Setup: func(env *testscript.Env) error {
			w, err := serve()
			if err != nil {
				return err
			}
			env.Defer(func() {
				if err := w.close(); err != nil {
					t.Error(err)
				}
			})
			config := filepath.Join(env.WorkDir, ".config")
			env.Setenv("KUBECONFIG", config)
			env.Setenv("HOME", env.WorkDir) // of kubectl's cache
			env.Setenv("PATH", bin+string(os.PathListSeparator)+env.Getenv("PATH"))
			return clientcmd.WriteToFile(*w.listener.Kubeconfig("volsim"), config)
		},
	})
}

// build builds a program of this module or of one that it requires.
func build(t *testing.T, to, pkg string, flags ...string) {
	t.Helper()
	args := append([]string{"build", "-o", to}, flags...)
	if out, err := exec.Command("go", append(args, pkg)...).CombinedOutput(); err != nil {
		t.Fatalf("build %s: %v\n%s", pkg, err, out)
	}
}
