package envtest_test

import (
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/ptr"

	"github.com/volsim/volsim/cluster"
	"github.com/volsim/volsim/envtest"
	"github.com/volsim/volsim/internal/testcheck"
)

// A migration runs one row of the section on envtest of docs/migrating.md: it fails as the row
// says, and applies the fix. It returns the text of the failure, or "" if there is none.
type migration func(t *testing.T, e *envtest.Environment, client kubernetes.Interface) (failure string)

// startError returns the error of a Start.
func startError(t *testing.T, e *envtest.Environment) string {
	t.Helper()
	_, err := e.Start()
	if err == nil {
		t.Fatal("Start succeeded")
	}
	return strings.TrimPrefix(err.Error(), "envtest: ")
}

// undefined returns what a compiler says of a field of an Environment, or "" if it exists.
func undefined(field string) string {
	if _, ok := reflect.TypeFor[envtest.Environment]().FieldByName(field); ok {
		return ""
	}
	return "testEnv." + field + " undefined (type *envtest.Environment has no field or method " + field + ")"
}

// kubeconfig checks that a kubeconfig leads to the environment.
func kubeconfig(t *testing.T, e *envtest.Environment) {
	t.Helper()
	user := testcheck.Must(e.AddUser(envtest.User{Name: "kubectl"}, nil))
	if config := testcheck.Must(user.KubeConfig()); !strings.Contains(string(config), "https://127.0.0.1:") {
		t.Errorf("got %s", config)
	}
}

// migrations are the rows by their first cell.
var migrations = map[string]migration{
	"`an existing cluster is asked for…`": func(t *testing.T, _ *envtest.Environment, _ kubernetes.Interface) string {
		return startError(t, &envtest.Environment{UseExistingCluster: ptr.To(true)})
	},
	"`testEnv.ControlPlane undefined…`": func(*testing.T, *envtest.Environment, kubernetes.Interface) string {
		return undefined("ControlPlane")
	},
	"`testEnv.KubeConfig undefined…`": func(t *testing.T, e *envtest.Environment, _ kubernetes.Interface) string {
		kubeconfig(t, e)
		return undefined("KubeConfig")
	},
	"the host of the configuration does not exist": func(t *testing.T, e *envtest.Environment, _ kubernetes.Interface) string {
		if !strings.HasSuffix(e.Config.Host, ".invalid") { // a domain that never exists
			t.Errorf("the host is %s", e.Config.Host)
		}
		kubeconfig(t, e)
		return ""
	},
	"a status that the suite sets is overwritten, or its write conflicts": func(t *testing.T, e *envtest.Environment, client kubernetes.Interface) string {
		claims := client.CoreV1().PersistentVolumeClaims("default")
		claim := testcheck.Must(claims.Create(t.Context(), cluster.NewClaim("data", "64Mi"), metav1.CreateOptions{}))
		claim.Status.Phase = corev1.ClaimPending
		if _, err := claims.UpdateStatus(t.Context(), claim, metav1.UpdateOptions{}); err != nil && !apierrors.IsConflict(err) {
			t.Error(err)
		}
		testcheck.NoError(t, e.Cluster().WaitForClaim(t.Context(), "default", "data", corev1.ClaimBound))

		quiet := &envtest.Environment{ClusterConfig: cluster.Config{Components: []string{}}}
		claims = testcheck.Must(kubernetes.NewForConfig(start(t, quiet))).CoreV1().PersistentVolumeClaims("default")
		claim = testcheck.Must(claims.Create(t.Context(), cluster.NewClaim("data", "64Mi"), metav1.CreateOptions{}))
		claim.Status.Phase = corev1.ClaimLost
		claim = testcheck.Must(claims.UpdateStatus(t.Context(), claim, metav1.UpdateOptions{}))
		if claim.Status.Phase != corev1.ClaimLost {
			t.Errorf("the phase is %s", claim.Status.Phase)
		}
		return ""
	},
	"a deleted namespace does not exist": func(t *testing.T, e *envtest.Environment, client kubernetes.Interface) string {
		team := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "team"}}
		for range 2 {
			testcheck.Must(client.CoreV1().Namespaces().Create(t.Context(), team, metav1.CreateOptions{}))
			testcheck.NoError(t, client.CoreV1().Namespaces().Delete(t.Context(), "team", metav1.DeleteOptions{}))
			testcheck.NoError(t, e.Cluster().WaitForGone(t.Context(), "namespaces", "", "team"))
		}
		return ""
	},
	"children of a deleted owner do not exist": func(t *testing.T, e *envtest.Environment, client kubernetes.Interface) string {
		maps := client.CoreV1().ConfigMaps("default")
		owner := testcheck.Must(maps.Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "owner"}}, metav1.CreateOptions{}))
		child := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "child", OwnerReferences: []metav1.OwnerReference{
			*metav1.NewControllerRef(owner, corev1.SchemeGroupVersion.WithKind("ConfigMap")),
		}}}
		testcheck.Must(maps.Create(t.Context(), child, metav1.CreateOptions{}))
		testcheck.NoError(t, maps.Delete(t.Context(), "owner", metav1.DeleteOptions{}))
		testcheck.NoError(t, e.Cluster().WaitForGone(t.Context(), "configmaps", "default", "child"))
		return ""
	},
	"a pod stays Pending": func(t *testing.T, e *envtest.Environment, client kubernetes.Interface) string {
		core := client.CoreV1()
		for _, class := range []string{"missing", cluster.ClassName} {
			claim := cluster.NewClaim("of-"+class, "64Mi")
			claim.Spec.StorageClassName = &class
			testcheck.Must(core.PersistentVolumeClaims("default").Create(t.Context(), claim, metav1.CreateOptions{}))
			testcheck.Must(core.Pods("default").Create(t.Context(), cluster.NewPod("on-"+class, claim.Name), metav1.CreateOptions{}))
		}
		testcheck.NoError(t, e.Cluster().WaitForPod(t.Context(), "default", "on-"+cluster.ClassName, corev1.PodRunning))
		isReason := func(c corev1.PodCondition) bool { return c.Type == corev1.PodScheduled && c.Message != "" }
		testcheck.NoError(t, e.Cluster().Wait(t.Context(), "the reason", func() bool {
			pod, _ := e.Cluster().Server().Get("pods", "default", "on-missing")
			return slices.ContainsFunc(pod.(*corev1.Pod).Status.Conditions, isReason)
		}))
		pod := testcheck.Must(core.Pods("default").Get(t.Context(), "on-missing", metav1.GetOptions{}))
		if pod.Status.Phase != corev1.PodPending {
			t.Errorf("the pod of a claim that does not bind is %s", pod.Status.Phase)
		}
		return ""
	},
}

// TestMigratingPage runs each row of the section on envtest of docs/migrating.md. The failure has
// the text that the row has.
func TestMigratingPage(t *testing.T) {
	_, section, _ := strings.Cut(string(testcheck.Must(os.ReadFile("../docs/migrating.md"))), "\n## From controller-runtime's envtest\n")
	rows := map[string]bool{}
	for _, line := range strings.Split(section, "\n") {
		cells := strings.Split(line, " | ")
		row := strings.TrimPrefix(cells[0], "| ")
		if len(cells) != 3 || row == "failure" {
			continue
		}
		rows[row] = true
		run := migrations[row]
		if run == nil {
			t.Errorf("no test of %q", row)
			continue
		}
		t.Run(row, func(t *testing.T) {
			e := &envtest.Environment{}
			client := testcheck.Must(kubernetes.NewForConfig(start(t, e)))
			text := strings.ReplaceAll("(?s)"+regexp.QuoteMeta(strings.Trim(row, "`")), "…", ".*")
			if failure := run(t, e, client); failure != "" && !regexp.MustCompile(text).MatchString(failure) {
				t.Errorf("failed with %s", failure)
			}
		})
	}
	for row := range migrations {
		if !rows[row] {
			t.Errorf("the page has no row %q", row)
		}
	}
}
