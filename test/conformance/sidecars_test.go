package conformance_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/utils/ptr"

	"github.com/volsim/volsim/cluster"
	"github.com/volsim/volsim/fake/crd"
)

// sidecarsTimeout is the time limit for each awaited condition.
const sidecarsTimeout = time.Minute

var (
	snapshots       = schema.GroupVersionResource{Group: "snapshot.storage.k8s.io", Version: "v1", Resource: "volumesnapshots"}
	snapshotClasses = snapshots.GroupVersion().WithResource("volumesnapshotclasses")
	contents        = snapshots.GroupVersion().WithResource("volumesnapshotcontents")
)

// TestSidecars runs the real external-provisioner, -attacher, -resizer, -snapshotter and the
// snapshot controller as processes, with a live cluster's API over HTTPS and a driver on a socket.
// A claim is provisioned, attached, expanded, modified, snapshotted, restored and cloned, and
// everything is deleted. The cluster's controllers bind and attach. Each program has a token of its own service
// account, with the roles that its project publishes.
//
// The first driver is the array, which accepts more calls than it implements. The second one is
// "volsim driver loop", which implements them. Then single ones work together with ours.
func TestSidecars(t *testing.T) {
	programs := buildSidecars(t, t.TempDir())
	t.Run("array", func(t *testing.T) { runWithArrayDriver(t, programs) })
	t.Run("loop", func(t *testing.T) { runWithLoopDriver(t, programs) })
	t.Run("mixed with ours", func(t *testing.T) { runMixedWithOurs(t, programs) })
}

// runWithArrayDriver runs all calls of the sidecars; the driver only records them.
func runWithArrayDriver(t *testing.T, programs string) {
	w := newSidecarWorld(t, programs)
	ctx := t.Context()
	claims := w.client.CoreV1().PersistentVolumeClaims("default")

	w.create(claims.Create(ctx, w.claim("data", nil), metav1.CreateOptions{}))
	w.bound("data")
	pod := cluster.NewPod("web", "data")
	pod.Spec.NodeName = "node-1"
	w.create(w.client.CoreV1().Pods("default").Create(ctx, pod, metav1.CreateOptions{}))
	w.wait("the attachment", func(ctx context.Context) (bool, error) {
		all, err := w.client.StorageV1().VolumeAttachments().List(ctx, metav1.ListOptions{})
		return err == nil && len(all.Items) == 1 && all.Items[0].Status.Attached, err
	})

	w.patchClaim("data", `{"spec":{"resources":{"requests":{"storage":"2Gi"}}}}`)
	w.expanded("data", "2Gi")
	w.patchClaim("data", `{"spec":{"volumeAttributesClassName":"fast"}}`)
	w.wait("the modification", func(ctx context.Context) (bool, error) {
		c, err := claims.Get(ctx, "data", metav1.GetOptions{})
		return err == nil && ptr.Deref(c.Status.CurrentVolumeAttributesClassName, "") == "fast", err
	})

	w.snapshot("snap", "data")
	w.create(claims.Create(ctx, w.claim("restored", &corev1.TypedLocalObjectReference{
		APIGroup: &snapshots.Group, Kind: "VolumeSnapshot", Name: "snap",
	}), metav1.CreateOptions{}))
	w.create(claims.Create(ctx, w.claim("cloned", &corev1.TypedLocalObjectReference{
		Kind: "PersistentVolumeClaim", Name: "data",
	}), metav1.CreateOptions{}))
	w.bound("restored")
	w.bound("cloned")

	w.tearDown()
	w.refusals()
}

// A sidecarWorld is a served cluster with sidecars and clients.
type sidecarWorld struct {
	t       testing.TB
	served  *served
	client  kubernetes.Interface
	dynamic dynamic.Interface
	log     *answerLog
}

// snapshot creates a snapshot of a claim's volume and waits until it is ready to use.
func (w *sidecarWorld) snapshot(name, claim string) {
	w.t.Helper()
	all := w.dynamic.Resource(snapshots).Namespace("default")
	w.create(all.Create(w.t.Context(), object(snapshots, "VolumeSnapshot", name, map[string]any{
		"spec": map[string]any{"source": map[string]any{"persistentVolumeClaimName": claim}},
	}), metav1.CreateOptions{}))
	w.wait("snapshot "+name, func(ctx context.Context) (bool, error) {
		s, err := all.Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return false, err
		}
		ready, _, err := unstructured.NestedBool(s.Object, "status", "readyToUse")
		return ready, err
	})
}

func newSidecarWorld(t *testing.T, programs string) *sidecarWorld {
	t.Helper()
	dir := t.TempDir()
	w := newServedWorld(t, cluster.Config{Devices: cluster.Array})
	w.setUp()
	socket := filepath.Join(dir, "csi.sock")
	serveDriver(t, socket, "node-1", "node-2")
	w.runSidecars(programs, "unix://"+socket)
	return w
}

// newServedWorld returns a served cluster with clients.
func newServedWorld(t testing.TB, of cluster.Config) *sidecarWorld {
	t.Helper()
	s, err := serveCluster(of)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.close(); err != nil {
			t.Error(err)
		}
	})
	w := &sidecarWorld{t: t, served: s, log: s.log}
	cfg := s.listener.Config()
	if w.client, err = kubernetes.NewForConfig(cfg); err != nil {
		t.Fatal(err)
	}
	if w.dynamic, err = dynamic.NewForConfig(cfg); err != nil {
		t.Fatal(err)
	}
	return w
}

// setUp creates the classes, the custom resources, and the driver's entries in the CSINodes.
func (w *sidecarWorld) setUp() {
	w.t.Helper()
	ctx := w.t.Context()
	w.create(w.client.StorageV1().StorageClasses().Create(ctx, &storagev1.StorageClass{
		ObjectMeta: metav1.ObjectMeta{Name: "real"}, Provisioner: driverName, AllowVolumeExpansion: ptr.To(true),
	}, metav1.CreateOptions{}))
	w.create(w.client.StorageV1().VolumeAttributesClasses().Create(ctx, &storagev1.VolumeAttributesClass{
		ObjectMeta: metav1.ObjectMeta{Name: "fast"}, DriverName: driverName, Parameters: map[string]string{"iops": "9000"},
	}, metav1.CreateOptions{}))
	w.create(w.client.StorageV1().CSIDrivers().Create(ctx, &storagev1.CSIDriver{
		ObjectMeta: metav1.ObjectMeta{Name: driverName},
	}, metav1.CreateOptions{}))
	for _, node := range []string{"node-1", "node-2"} {
		w.create(w.client.StorageV1().CSINodes().Patch(ctx, node, types.JSONPatchType, fmt.Appendf(nil,
			`[{"op":"add","path":"/spec/drivers/-","value":{"name":%q,"nodeID":%q}}]`, driverName, node), metav1.PatchOptions{}))
	}
	w.setUpSnapshots()
}

// setUpSnapshots creates the custom resources of snapshots and their class.
func (w *sidecarWorld) setUpSnapshots() {
	w.t.Helper()
	module := moduleDir(w.t, "sidecars", "github.com/kubernetes-csi/external-snapshotter/client/v8")
	files, err := filepath.Glob(filepath.Join(module, "config", "crd", "*.storage.k8s.io_*.yaml"))
	if err != nil || len(files) != 6 {
		w.t.Fatalf("snapshot definitions: %v, %v", files, err)
	}
	for _, file := range files {
		w.install(file)
	}
	w.createSnapshotClass()
}

// createSnapshotClass creates the default class of snapshots.
func (w *sidecarWorld) createSnapshotClass() {
	w.t.Helper()
	ctx := w.t.Context()
	w.create(w.dynamic.Resource(snapshotClasses).Create(ctx, object(snapshotClasses, "VolumeSnapshotClass", "snaps", map[string]any{
		"driver": driverName, "deletionPolicy": "Delete",
	}), metav1.CreateOptions{}))
	w.create(w.dynamic.Resource(snapshotClasses).Patch(ctx, "snaps", types.MergePatchType,
		[]byte(`{"metadata":{"annotations":{"snapshot.storage.kubernetes.io/is-default-class":"true"}}}`), metav1.PatchOptions{}))
}

func object(r schema.GroupVersionResource, kind, name string, content map[string]any) *unstructured.Unstructured {
	u := &unstructured.Unstructured{Object: content}
	u.SetGroupVersionKind(r.GroupVersion().WithKind(kind))
	u.SetName(name)
	return u
}

// install creates a definition from a file.
func (w *sidecarWorld) install(path string) {
	w.t.Helper()
	file, err := os.Open(path)
	if err != nil {
		w.t.Fatal(err)
	}
	defer file.Close()
	if err := crd.Install(w.t.Context(), w.served.admin(), file); err != nil {
		w.t.Fatal(err)
	}
}

// kubeconfigOf returns the kubeconfig of a sidecar: it is its own service account, with the roles that
// its project publishes.
func (w *sidecarWorld) kubeconfigOf(program string) string {
	w.t.Helper()
	issued, err := w.client.CoreV1().ServiceAccounts(metav1.NamespaceSystem).CreateToken(w.t.Context(), program,
		&authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	if err != nil {
		w.t.Fatal(err)
	}
	config := w.served.listener.Kubeconfig("volsim")
	config.AuthInfos["volsim"].Token = issued.Status.Token
	path := filepath.Join(w.t.TempDir(), program)
	if err := clientcmd.WriteToFile(*config, path); err != nil {
		w.t.Fatal(err)
	}
	return path
}

// grantNodes lets the service account of a sidecar see the nodes: a rule that the published file has only as
// a comment, for distributed snapshotting.
func (w *sidecarWorld) grantNodes(account string) {
	w.t.Helper()
	name := metav1.ObjectMeta{Name: account + "-nodes"}
	w.create(w.client.RbacV1().ClusterRoles().Create(w.t.Context(), &rbacv1.ClusterRole{ObjectMeta: name, Rules: []rbacv1.PolicyRule{
		{APIGroups: []string{""}, Resources: []string{"nodes"}, Verbs: []string{"get", "list", "watch"}},
	}}, metav1.CreateOptions{}))
	w.create(w.client.RbacV1().ClusterRoleBindings().Create(w.t.Context(), &rbacv1.ClusterRoleBinding{
		ObjectMeta: name, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: name.Name},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: metav1.NamespaceSystem, Name: account}},
	}, metav1.CreateOptions{}))
}

// runSidecars runs the sidecars until the end of the test.
func (w *sidecarWorld) runSidecars(programs, socket string) {
	w.t.Helper()
	address := []string{"--csi-address=" + socket, "--leader-election", "--leader-election-namespace=kube-system", "--kube-api-qps=1000", "--kube-api-burst=1000"}
	for _, s := range []struct {
		name string
		args []string
	}{
		{"csi-provisioner", append(slices.Clone(address), "--enable-capacity", "--capacity-ownerref-level=-1", "--capacity-for-immediate-binding", "--extra-create-metadata", "--retry-interval-start=100ms",
			// the finalizer of a restored snapshot stays if its removal conflicts with another write
			"--snapshot-orphan-sweep-interval=1s")},
		{"csi-attacher", append(slices.Clone(address), "--reconcile-sync=2s", "--retry-interval-start=100ms")},
		{"csi-resizer", append(slices.Clone(address), "--handle-volume-inuse-error=true", "--retry-interval-start=100ms")},
		{"csi-snapshotter", append(slices.Clone(address), "--retry-interval-start=100ms")},
		{"snapshot-controller", []string{"--leader-election", "--leader-election-namespace=kube-system", "--kube-api-qps=1000", "--kube-api-burst=1000", "--retry-interval-start=100ms"}},
	} {
		w.run(filepath.Join(programs, s.name), s.args)
	}
}

// run runs a program as its own service account until the end of the test, and logs its output if the test fails. The returned function
// ends it earlier.
func (w *sidecarWorld) run(program string, args []string) (end func()) {
	w.t.Helper()
	var said syncBuffer
	cmd := exec.Command(program, append(slices.Clone(args), "--kubeconfig="+w.kubeconfigOf(filepath.Base(program)))...)
	cmd.Stdout, cmd.Stderr = &said, &said
	cmd.Env = append(os.Environ(), "NAMESPACE=kube-system", "NODE_NAME=node-1", "POD_NAME="+filepath.Base(program))
	if err := cmd.Start(); err != nil {
		w.t.Fatal(err)
	}
	end = sync.OnceFunc(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // killed
		if w.t.Failed() {
			w.t.Logf("%s said:\n%s", filepath.Base(program), said.tail(40))
		}
	})
	w.t.Cleanup(end)
	return end
}

// A syncBuffer is a buffer that is safe for concurrent use.
type syncBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *syncBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *syncBuffer) tail(lines int) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := strings.Split(strings.TrimSpace(s.b.String()), "\n")
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}

// create fails the test if the creation of an object failed.
func (w *sidecarWorld) create(obj metav1.Object, err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatalf("%s: %v", obj.GetName(), err)
	}
}

// claim returns a claim of the driver's class.
func (w *sidecarWorld) claim(name string, source *corev1.TypedLocalObjectReference) *corev1.PersistentVolumeClaim {
	c := cluster.NewClaim(name, "1Gi")
	if source != nil {
		c = cluster.NewClaim(name, "2Gi")
	}
	c.Spec.StorageClassName, c.Spec.DataSource = ptr.To("real"), source
	return c
}

func (w *sidecarWorld) patchClaim(name, patch string) {
	w.t.Helper()
	w.create(w.client.CoreV1().PersistentVolumeClaims("default").Patch(w.t.Context(), name, types.StrategicMergePatchType,
		[]byte(patch), metav1.PatchOptions{}))
}

func (w *sidecarWorld) bound(claim string) {
	w.t.Helper()
	w.wait("claim "+claim, func(ctx context.Context) (bool, error) {
		c, err := w.client.CoreV1().PersistentVolumeClaims("default").Get(ctx, claim, metav1.GetOptions{})
		return err == nil && c.Status.Phase == corev1.ClaimBound, err
	})
}

// expanded waits until the resizer has reported that a claim has a size. It has then also replaced the claim in its
// cache by the response to its last write. If the claim changed in between, it would not see that until the
// claim changes again (external-resizer pkg/controller markPVCResizeFinished, 2.3.0).
func (w *sidecarWorld) expanded(claim, size string) {
	w.t.Helper()
	w.wait("the expansion of "+claim, func(ctx context.Context) (bool, error) {
		c, err := w.client.CoreV1().PersistentVolumeClaims("default").Get(ctx, claim, metav1.GetOptions{})
		if err != nil || c.Status.Capacity.Storage().Cmp(resource.MustParse(size)) != 0 {
			return false, err
		}
		events, err := w.client.CoreV1().Events("default").List(ctx, metav1.ListOptions{
			FieldSelector: "reason=VolumeResizeSuccessful,involvedObject.uid=" + string(c.UID),
		})
		return err == nil && len(events.Items) > 0, err
	})
}

// wait waits until cond holds. It checks cond after each action of the world.
func (w *sidecarWorld) wait(what string, cond func(context.Context) (bool, error)) {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), sidecarsTimeout)
	defer cancel()
	changes := w.served.changes()
	for {
		ok, err := cond(ctx)
		if ok {
			return
		}
		select {
		case <-changes:
		case <-ctx.Done():
			w.t.Fatalf("timeout waiting for %s: %v", what, err)
		}
	}
}

// tearDown deletes everything and waits until nothing remains.
func (w *sidecarWorld) tearDown() {
	w.t.Helper()
	ctx := w.t.Context()
	all, none := metav1.ListOptions{}, metav1.DeleteOptions{GracePeriodSeconds: ptr.To(int64(0))}
	for _, err := range []error{
		w.client.CoreV1().Pods("default").DeleteCollection(ctx, none, all),
		w.client.CoreV1().PersistentVolumeClaims("default").DeleteCollection(ctx, none, all),
		w.dynamic.Resource(snapshots).Namespace("default").DeleteCollection(ctx, none, all),
	} {
		if err != nil {
			w.t.Fatal(err)
		}
	}
	w.wait("the end", func(ctx context.Context) (bool, error) {
		volumes, err := w.client.CoreV1().PersistentVolumes().List(ctx, all)
		if err != nil || len(volumes.Items) > 0 {
			return false, remaining(volumes, err)
		}
		left, err := w.dynamic.Resource(contents).List(ctx, all)
		if err != nil || len(left.Items) > 0 {
			return false, remaining(left, err)
		}
		if left, err = w.dynamic.Resource(snapshots).Namespace("default").List(ctx, all); err != nil || len(left.Items) > 0 {
			return false, remaining(left, err)
		}
		return true, nil
	})
}

// remaining is the error of a wait for an empty list.
func remaining(list runtime.Object, err error) error {
	if err != nil {
		return err
	}
	text, err := json.Marshal(list)
	return errors.Join(fmt.Errorf("remaining: %s", text), err)
}

// refusals checks that the server refused only the usual requests: conflicts, missing objects, late
// finalizers, and the provisioner's probe of capacity objects.
func (w *sidecarWorld) refusals() {
	w.t.Helper()
	for _, a := range w.log.refused() {
		switch {
		case a.code == 409, a.code == 404 && a.method != "POST":
		case a.code == 422 && strings.HasSuffix(a.path, "/csistoragecapacities"): // intentionally invalid
		case a.code == 422 && a.method == "PATCH" && strings.Contains(a.path, "/persistentvolumes/"): // a stale JSON patch
		case a.code == 422 && a.method != "POST" && strings.Contains(a.body, "no new finalizers"):
			// a program syncs a claim or a snapshot again while the test deletes the snapshot
		case a.code == 400 && strings.Contains(a.body, "client disconnected"), // its program was killed
			a.code == 500 && strings.Contains(a.body, "context canceled"):
		case a.code == 403 && strings.HasSuffix(a.path, "/events") && strings.Contains(a.body, "csi-attacher"):
			// its published role has no rule for the event that it is the leader
		case a.code == 404 && strings.HasSuffix(a.path, "/events"): // the object's namespace is deleted
		default:
			w.t.Errorf("refused: %s %s: %d: %s", a.method, a.path, a.code, a.body)
		}
	}
}
