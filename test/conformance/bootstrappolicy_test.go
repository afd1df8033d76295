package conformance_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/kubernetes/plugin/pkg/auth/authorizer/rbac/bootstrappolicy"
	"sigs.k8s.io/yaml"
)

var update = flag.Bool("update", false, "write files with upstream's data again")

// bootstrapFile has the roles and bindings that a server with RBAC starts with, one object a line.
const bootstrapFile = "../../internal/rbac/bootstrap.jsonl"

// TestBootstrapPolicy compares them with those that upstream's server creates.
func TestBootstrapPolicy(t *testing.T) {
	var lines bytes.Buffer
	add := func(kind string, obj runtime.Object) {
		obj.GetObjectKind().SetGroupVersionKind(rbacv1.SchemeGroupVersion.WithKind(kind))
		text, err := runtime.DefaultUnstructuredConverter.ToUnstructured(obj)
		if err != nil {
			t.Fatal(err)
		}
		delete(text["metadata"].(map[string]any), "creationTimestamp")
		if text["rules"] == nil {
			delete(text, "rules")
		}
		line, err := json.Marshal(text)
		if err != nil {
			t.Fatal(err)
		}
		lines.Write(append(line, '\n'))
	}
	for _, r := range append(bootstrappolicy.ClusterRoles(), bootstrappolicy.ControllerRoles()...) {
		add("ClusterRole", &r)
	}
	for _, b := range append(bootstrappolicy.ClusterRoleBindings(), bootstrappolicy.ControllerRoleBindings()...) {
		add("ClusterRoleBinding", &b)
	}
	for _, namespace := range []string{metav1.NamespaceSystem, metav1.NamespacePublic} {
		for _, r := range bootstrappolicy.NamespaceRoles()[namespace] {
			add("Role", &r)
		}
		for _, b := range bootstrappolicy.NamespaceRoleBindings()[namespace] {
			add("RoleBinding", &b)
		}
	}
	for namespace := range bootstrappolicy.NamespaceRoles() {
		if !slices.Contains([]string{metav1.NamespaceSystem, metav1.NamespacePublic}, namespace) {
			t.Errorf("also roles in namespace %s", namespace)
		}
	}
	compareFile(t, bootstrapFile, lines.Bytes())
}

// compareFile compares the content of a file, or writes it with -update.
func compareFile(t *testing.T, path string, want []byte) {
	t.Helper()
	if *update {
		if err := os.WriteFile(path, want, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	have, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(have, want) {
		t.Errorf("%s differs; write it again with -update", path)
	}
}

// sidecarRolesFile has the service accounts of the sidecars with their roles and bindings, one object a
// line.
const sidecarRolesFile = "../../cluster/sidecarroles.jsonl"

// publishedRoles are the files with which the projects of the sidecars publish their roles.
var publishedRoles = []string{
	"github.com/kubernetes-csi/external-provisioner/v6 deploy/kubernetes/rbac.yaml",
	"github.com/kubernetes-csi/external-attacher/v4 deploy/kubernetes/rbac.yaml",
	"github.com/kubernetes-csi/external-resizer/v2 deploy/kubernetes/rbac.yaml",
	"github.com/kubernetes-csi/external-snapshotter/v8 deploy/kubernetes/csi-snapshotter/rbac-csi-snapshotter.yaml",
	"github.com/kubernetes-csi/external-snapshotter/v8 deploy/kubernetes/snapshot-controller/rbac-snapshot-controller.yaml",
	// These are copies of the published files, with the driver's own for a pod with all sidecars.
	"k8s.io/kubernetes test/e2e/testing-manifests/storage-csi/external-health-monitor/external-health-monitor-controller/rbac.yaml",
	"k8s.io/kubernetes test/e2e/testing-manifests/storage-csi/external-snapshot-metadata/rbac.yaml",
	"k8s.io/kubernetes test/e2e/testing-manifests/storage-csi/hostpath/hostpath/csi-hostpath-plugin.yaml",
}

// TestSidecarRoles compares them with the published ones, in the namespace kube-system.
func TestSidecarRoles(t *testing.T) {
	var lines bytes.Buffer
	for _, published := range publishedRoles {
		module, file, _ := strings.Cut(published, " ")
		in := "sidecars"
		if module == "k8s.io/kubernetes" {
			in = "."
		}
		text, err := os.ReadFile(filepath.Join(moduleDir(t, in, module), file))
		if err != nil {
			t.Fatal(err)
		}
		for _, document := range strings.Split(string(text), "\n---") {
			var obj map[string]any
			if err := yaml.Unmarshal([]byte(document), &obj); err != nil {
				t.Fatal(err)
			}
			switch obj["kind"] {
			case "ServiceAccount", "Role", "RoleBinding":
				obj["metadata"].(map[string]any)["namespace"] = metav1.NamespaceSystem
			case "ClusterRole", "ClusterRoleBinding":
			default:
				continue // nothing, or the pod itself
			}
			move(obj)
			line, err := json.Marshal(obj)
			if err != nil {
				t.Fatal(err)
			}
			lines.Write(append(line, '\n'))
		}
	}
	compareFile(t, sidecarRolesFile, lines.Bytes())
}

// move moves an object of a file to the namespace kube-system, with all that it refers to.
func move(value any) {
	switch v := value.(type) {
	case map[string]any:
		if _, ok := v["namespace"].(string); ok {
			v["namespace"] = metav1.NamespaceSystem
		}
		for _, of := range v {
			move(of)
		}
	case []any:
		for _, of := range v {
			move(of)
		}
	}
}

// moduleDir returns the directory of a module that the module in a folder requires. It downloads it: go list
// names no directory of a module that nothing has downloaded.
func moduleDir(t testing.TB, in, module string) string {
	t.Helper()
	answer, err := exec.Command("go", "mod", "download", "-C", in, "-json", module).Output()
	if err != nil {
		t.Fatal(err)
	}
	var downloaded struct{ Dir string }
	if err := json.Unmarshal(answer, &downloaded); err != nil {
		t.Fatal(err)
	}
	return downloaded.Dir
}
