package cluster_test

import (
	"context"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/volsim/volsim/cluster"
	"github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/internal/eventhandler"
	"github.com/volsim/volsim/internal/testcheck"
	"github.com/volsim/volsim/sim"
)

// rbacLife provisions a claim for the pod of a StatefulSet, takes a snapshot, restores and enlarges it, moves
// the pod, and deletes everything.
func rbacLife(ctx context.Context, c *cluster.Cluster) error {
	client := c.Client()
	set := &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Name: "db", Namespace: "default"}, Spec: appsv1.StatefulSetSpec{
		Replicas: ptr.To[int32](1), ServiceName: "db", Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "db"}},
		Template:             corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "db"}}, Spec: cluster.NewPod("db").Spec},
		VolumeClaimTemplates: []corev1.PersistentVolumeClaim{*cluster.NewClaim("data", "1Gi")},
	}}
	set.Spec.Template.Spec.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "data", MountPath: "/data"}}
	if _, err := client.AppsV1().StatefulSets("default").Create(ctx, set, metav1.CreateOptions{}); err != nil {
		return err
	}
	if err := c.WaitForPod(ctx, "default", "db-0", corev1.PodRunning); err != nil {
		return err
	}
	if err := c.Apply(ctx, snapshotOf("before", "data-db-0")); err != nil {
		return err
	}
	if err := c.WaitFor(ctx, volumeSnapshots, "default", "before", readyToUse); err != nil {
		return err
	}
	if _, err := client.CoreV1().PersistentVolumeClaims("default").Create(ctx, restoredFrom("before", "restored", "1Gi"), metav1.CreateOptions{}); err != nil {
		return err
	}
	if _, err := client.CoreV1().Pods("default").Create(ctx, cluster.NewPod("reader", "restored"), metav1.CreateOptions{}); err != nil {
		return err
	}
	if err := c.WaitForPod(ctx, "default", "reader", corev1.PodRunning); err != nil {
		return err
	}
	claims := client.CoreV1().PersistentVolumeClaims("default")
	claim, err := claims.Get(ctx, "restored", metav1.GetOptions{})
	if err != nil {
		return err
	}
	claim.Spec.Resources.Requests[corev1.ResourceStorage] = resource.MustParse("2Gi")
	if _, err := claims.Update(ctx, claim, metav1.UpdateOptions{}); err != nil {
		return err
	}
	if err := c.WaitFor(ctx, "persistentvolumeclaims", "default", "restored", "jsonpath={.status.capacity.storage}=2Gi"); err != nil {
		return err
	}
	if err := client.CoreV1().Pods("default").Delete(ctx, "db-0", metav1.DeleteOptions{}); err != nil {
		return err
	}
	if err := c.WaitForRest(ctx); err != nil {
		return err
	}
	if err := c.WaitForPod(ctx, "default", "db-0", corev1.PodRunning); err != nil {
		return err
	}
	none := metav1.DeleteOptions{}
	for _, err := range []error{
		client.AppsV1().StatefulSets("default").Delete(ctx, "db", none), client.CoreV1().Pods("default").Delete(ctx, "reader", none),
		c.WaitForGone(ctx, "pods", "default", "db-0"), c.WaitForGone(ctx, "pods", "default", "reader"),
		claims.Delete(ctx, "data-db-0", none), claims.Delete(ctx, "restored", none), snapshotsOf(c).Delete(ctx, "default", "before", none),
		c.WaitForRest(ctx),
	} {
		if err != nil {
			return err
		}
	}
	if left := c.Server().List("persistentvolumes"); len(left) > 0 {
		return fmt.Errorf("%d volumes are left", len(left))
	}
	return nil
}

// refusals are the requests in the trace that were refused for lack of a permission, each once.
func refusals(c *cluster.Cluster) []string {
	var all []string
	for _, r := range c.Trace().Records() {
		if apierrors.IsForbidden(r.Outcome.Err) && strings.Contains(r.Outcome.Err.Error(), `User "`) {
			all = append(all, r.Outcome.Err.Error())
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// TestLifeWithRBAC: with the roles that Kubernetes and the projects of the sidecars publish, every component
// can do its work, and asks for no more than the real one. Sidecars elect leaders.
func TestLifeWithRBAC(t *testing.T) {
	for name, stepped := range map[string]*sim.SteppedConfig{"stepped": {StepsMax: 40000}, "live": nil} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			c := start(t, cluster.Config{
				Snapshots: true, Devices: cluster.Array, Nodes: 2, Stepped: stepped, API: fake.Config{RBAC: true},
				StorageCapacity: time.Minute, LeaderElection: true, NodeLeases: stepped == nil,
			})
			testcheck.NoError(t, rbacLife(ctx, c))
			if len(c.Server().List("leases")) == 0 {
				t.Error("no leader is elected")
			}
			// The attacher's published role has no rule for the event that it is the leader.
			want := []string{`events is forbidden: User "system:serviceaccount:kube-system:csi-attacher" cannot create resource "events" in API group "" in the namespace "kube-system"`}
			testcheck.Equal(t, "refused", want, refusals(c))
		})
	}
}

// TestReplicaIsTheSameUser: the second process of a component may do what the first may.
func TestReplicaIsTheSameUser(t *testing.T) {
	c := start(t, cluster.Config{
		Snapshots: true, Devices: cluster.Array, Nodes: 2, Stepped: &sim.SteppedConfig{StepsMax: 80000}, API: fake.Config{RBAC: true},
	})
	testcheck.NoError(t, c.Replicate("pvcprotection"), c.Replicate("provisioner"), rbacLife(t.Context(), c))
	if refused := refusals(c); len(refused) > 0 {
		t.Errorf("refused:\n%s", strings.Join(refused, "\n"))
	}
}

// TestOwnComponentIsItsUser: a component of the test's own does what the roles of its user allow.
func TestOwnComponentIsItsUser(t *testing.T) {
	var seen int
	var refused error
	c := start(t, cluster.Config{
		Devices: cluster.Array, Nodes: 1, Stepped: &sim.SteppedConfig{StepsMax: 5000}, API: fake.Config{RBAC: true},
		Extra: []cluster.Component{{
			Name: "operator", User: "system:serviceaccount:default:operator", Start: func(p cluster.ComponentContext) error {
				queue := sim.NewQueue[string](p.Process, sim.QueueConfig{Name: "claims"})
				claims := p.Informers.Core().V1().PersistentVolumeClaims()
				eventhandler.Add(claims.Informer(), func(_, claim *corev1.PersistentVolumeClaim) { queue.Add(claim.Name) }, nil)
				p.Process.GateWorkers(claims.Informer().HasSynced)
				queue.Work(func(ctx context.Context, name string) error {
					seen++
					refused = p.Client.CoreV1().PersistentVolumeClaims("default").Delete(ctx, name, metav1.DeleteOptions{})
					return nil
				})
				return nil
			},
		}},
	})
	add(t, c, cluster.NewClaim("data", "1Gi"))
	testcheck.NoError(t, c.Run(t.Context()))
	testcheck.Equal(t, "claims seen without a role", 0, seen)
	role := metav1.ObjectMeta{Name: "operator"}
	testcheck.Must(c.Client().RbacV1().ClusterRoles().Create(t.Context(), &rbacv1.ClusterRole{ObjectMeta: role, Rules: []rbacv1.PolicyRule{
		{APIGroups: []string{""}, Resources: []string{"persistentvolumeclaims"}, Verbs: []string{"list", "watch"}},
	}}, metav1.CreateOptions{}))
	testcheck.Must(c.Client().RbacV1().ClusterRoleBindings().Create(t.Context(), &rbacv1.ClusterRoleBinding{
		ObjectMeta: role, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "operator"},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: "default", Name: "operator"}},
	}, metav1.CreateOptions{}))
	testcheck.NoError(t, c.Run(t.Context()))
	if seen == 0 || !apierrors.IsForbidden(refused) {
		t.Errorf("with a role to list and watch: %d claims seen, deletion: %v", seen, refused)
	}
}

const rulesFile = "testdata/rules.txt"

var updateRules = flag.Bool("update", false, "write testdata/rules.txt again")

// usedRoles are the cluster roles whose rules TestEachRuleIsNeeded removes.
var usedRoles = []string{
	"external-provisioner-runner", "external-attacher-runner", "external-resizer-runner", "external-snapshotter-runner",
	"snapshot-controller-runner", "system:controller:persistent-volume-binder", "system:controller:attachdetach-controller",
	"system:controller:pv-protection-controller", "system:controller:pvc-protection-controller", "system:volume-scheduler",
}

// TestEachRuleIsNeeded removes each rule of the roles, and compares what is refused then with
// testdata/rules.txt. Rules that this life does not need have a line, too.
func TestEachRuleIsNeeded(t *testing.T) {
	roles := map[string]*rbacv1.ClusterRole{}
	c := start(t, cluster.Config{Devices: cluster.Array, Nodes: 1, Stepped: &sim.SteppedConfig{StepsMax: 5000}, API: fake.Config{RBAC: true}})
	for _, obj := range c.Server().List("clusterroles") {
		roles[obj.GetName()] = obj.(*rbacv1.ClusterRole)
	}
	names := usedRoles
	if testing.Short() {
		names = names[:1]
	}
	lines := make([][]string, len(names))
	t.Run("without", func(t *testing.T) {
		for i, name := range names {
			role := roles[name]
			if role == nil {
				t.Fatalf("no role %s", name)
			}
			lines[i] = make([]string, len(role.Rules))
			for j, rule := range role.Rules {
				t.Run(fmt.Sprintf("%s rule %d", name, j), func(t *testing.T) {
					t.Parallel()
					without := role.DeepCopy()
					without.Rules = slices.Delete(without.Rules, j, j+1)
					refused := refusedWithout(t, without)
					if len(refused) == 0 {
						refused = []string{"-"}
					}
					lines[i][j] = fmt.Sprintf("%s %s %s: %s", name, strings.Join(rule.Resources, ","), strings.Join(rule.Verbs, ","), refused[0])
				})
			}
		}
	})
	got := strings.Join(slices.Concat(lines...), "\n") + "\n"
	if *updateRules && !testing.Short() {
		testcheck.NoError(t, os.WriteFile(rulesFile, []byte(got), 0o644))
	}
	want := string(testcheck.Must(os.ReadFile(rulesFile)))
	if testing.Short() { // the first lines
		want = want[:min(len(want), len(got))]
	}
	testcheck.Equal(t, rulesFile, want, got)
}

// refusedWithout runs the life with a changed role, and returns what was refused.
func refusedWithout(t *testing.T, role *rbacv1.ClusterRole) []string {
	t.Helper()
	c, err := cluster.New(cluster.Config{
		Snapshots: true, Devices: cluster.Array, Nodes: 2, Stepped: &sim.SteppedConfig{StepsMax: 40000}, API: fake.Config{RBAC: true},
	})
	testcheck.NoError(t, err)
	defer func() { testcheck.NoError(t, c.Close()) }()
	if _, err := c.Client().RbacV1().ClusterRoles().Update(t.Context(), role, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := c.Start(t.Context()); err == nil {
		_ = rbacLife(t.Context(), c) // it may fail without the rule
	}
	return refusals(c)
}

// TestSecretsHaveTokens: a secret gets the token of its account, which is valid as long as both exist. The controller is as
// authorized as it needs to be, and its process starts with the first such secret in a stepped world.
func TestSecretsHaveTokens(t *testing.T) {
	for name, stepped := range map[string]*sim.SteppedConfig{"stepped": {StepsMax: 5000}, "live": nil} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			c := start(t, cluster.Config{
				Devices: cluster.Array, Nodes: 1, Stepped: stepped, API: fake.Config{RBAC: true, TokenKey: []byte("key"), RootCA: "CA"},
			})
			client := c.Client().CoreV1()
			accounts, secrets := client.ServiceAccounts("default"), client.Secrets("default")
			testcheck.Must(accounts.Create(ctx, &corev1.ServiceAccount{
				ObjectMeta: metav1.ObjectMeta{Name: "ci"}, Secrets: []corev1.ObjectReference{{Name: "second"}, {Name: "third"}},
			}, metav1.CreateOptions{}))
			for _, name := range []string{"first", "second"} {
				testcheck.Must(secrets.Create(ctx, &corev1.Secret{
					ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{corev1.ServiceAccountNameKey: "ci"}},
					Type:       corev1.SecretTypeServiceAccountToken,
				}, metav1.CreateOptions{}))
				testcheck.NoError(t, c.WaitFor(ctx, "secrets", "default", name, "jsonpath={.data.token}"))
			}
			secret := testcheck.Must(secrets.Get(ctx, "first", metav1.GetOptions{}))
			token := string(secret.Data[corev1.ServiceAccountTokenKey])
			testcheck.Equal(t, "namespace", "default", string(secret.Data[corev1.ServiceAccountNamespaceKey]))
			testcheck.Equal(t, "certificate", "CA", string(secret.Data[corev1.ServiceAccountRootCAKey]))
			review := testcheck.Must(c.Client().AuthenticationV1().TokenReviews().Create(ctx,
				&authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{Token: token}}, metav1.CreateOptions{}))
			testcheck.Equal(t, "user", "system:serviceaccount:default:ci", review.Status.User.Username)

			testcheck.NoError(t, secrets.Delete(ctx, "second", metav1.DeleteOptions{}),
				c.WaitFor(ctx, "serviceaccounts", "default", "ci", "jsonpath={.secrets[0].name}=third"))
			testcheck.NoError(t, accounts.Delete(ctx, "ci", metav1.DeleteOptions{}), c.WaitForGone(ctx, "secrets", "default", "first"))
			if _, _, err := c.Server().AuthenticateToken(token); err == nil {
				t.Error("a token of a deleted account is valid")
			}
			testcheck.Equal(t, "refused", nil, refusals(c))
		})
	}
}

// TestLifeUnderOneAccount: a pod with the driver and all sidecars, as csi-driver-host-path publishes it, is one user. The
// accounts of the single sidecars have no rights here.
func TestLifeUnderOneAccount(t *testing.T) {
	begin := func(t *testing.T, stepped *sim.SteppedConfig) *cluster.Cluster {
		c := start(t, cluster.Config{
			Snapshots: true, Devices: cluster.Array, Nodes: 2, Stepped: stepped, API: fake.Config{RBAC: true},
			StorageCapacity: time.Minute, LeaderElection: true, SidecarUser: cluster.HostPathAccount,
		})
		for _, name := range []string{"provisioner", "attacher", "resizer", "snapshotter"} {
			testcheck.NoError(t, c.Client().RbacV1().ClusterRoleBindings().Delete(t.Context(), "csi-"+name+"-role", metav1.DeleteOptions{}))
		}
		return c
	}
	for name, stepped := range map[string]*sim.SteppedConfig{"stepped": {StepsMax: 40000}, "live": nil} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			c := begin(t, stepped)
			testcheck.NoError(t, rbacLife(ctx, c))
			testcheck.Equal(t, "refused", nil, refusals(c))
		})
	}
	t.Run("without a binding", func(t *testing.T) {
		c := begin(t, &sim.SteppedConfig{StepsMax: 40000})
		testcheck.NoError(t, c.Client().RbacV1().ClusterRoleBindings().Delete(t.Context(), "csi-hostpathplugin-resizer-cluster-role", metav1.DeleteOptions{}))
		if err := rbacLife(t.Context(), c); err == nil {
			t.Error("volumes grow without the resizer's role")
		}
		refused := refusals(c)
		if len(refused) == 0 || !strings.Contains(refused[0], `User "`+cluster.HostPathAccount+`" cannot `) {
			t.Errorf("refused: %q", refused)
		}
	})
}
