package csi_test

import (
	"context"
	"encoding/json"
	"math"
	"slices"
	"strings"
	"testing"

	csispec "github.com/container-storage-interface/spec/lib/go/csi"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volsim/volsim/internal/testcheck"
	"github.com/volsim/volsim/plugins"
	"github.com/volsim/volsim/plugins/array"
	"github.com/volsim/volsim/plugins/csi"
	"github.com/volsim/volsim/sim"
	"github.com/volsim/volsim/sim/trace"
)

const nodeIDs = "csi.volume.kubernetes.io/nodeid"

// migrated is the list of migrated plugins of a CSINode.
const migrated = "kubernetes.io/aws-ebs,kubernetes.io/azure-disk,kubernetes.io/azure-file,kubernetes.io/cinder," +
	"kubernetes.io/gce-pd,kubernetes.io/portworx-volume,kubernetes.io/vsphere-volume"

func (w *world) publish(driver string, info *csispec.NodeGetInfoResponse) error {
	w.Helper()
	return w.do(func(ctx context.Context) error { return w.plugin.Publish(ctx, driver, info) })
}

// registered are the drivers of the CSINode.
func (w *world) registered() []storagev1.CSINodeDriver {
	object, ok := w.Server.Get("csinodes", "", node1)
	if !ok {
		return nil
	}
	return object.(*storagev1.CSINode).Spec.Drivers
}

func (w *world) annotation() string {
	object, _ := w.Server.Get("nodes", "", node1)
	return object.GetAnnotations()[nodeIDs]
}

// patch changes the Node, as another client does.
func (w *world) patch(change func(*corev1.Node)) {
	w.Helper()
	nodes := w.User.CoreV1().Nodes()
	node, err := nodes.Get(context.Background(), node1, metav1.GetOptions{})
	w.NoError(err)
	change(node)
	_, err = nodes.Update(context.Background(), node, metav1.UpdateOptions{})
	w.NoError(err)
}

func (w *world) annotate(value string) {
	w.Helper()
	w.patch(func(n *corev1.Node) { n.Annotations = map[string]string{nodeIDs: value, "other": "kept"} })
}

// csiNode creates the node's CSINode, owned by the Node with that UID; "": by the existing one.
func (w *world) csiNode(owner types.UID, drivers ...storagev1.CSINodeDriver) {
	w.Helper()
	if owner == "" {
		node, _ := w.Server.Get("nodes", "", node1)
		owner = node.GetUID()
	}
	_, err := w.User.StorageV1().CSINodes().Create(context.Background(), &storagev1.CSINode{
		ObjectMeta: metav1.ObjectMeta{
			Name: node1, Annotations: map[string]string{corev1.MigratedPluginsAnnotationKey: migrated},
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: node1, UID: owner}},
		},
		Spec: storagev1.CSINodeSpec{Drivers: drivers},
	}, metav1.CreateOptions{})
	w.NoError(err)
}

func (w *world) addDriver(d storagev1.CSINodeDriver) {
	w.Helper()
	node, err := w.User.StorageV1().CSINodes().Get(context.Background(), node1, metav1.GetOptions{})
	w.NoError(err)
	node.Spec.Drivers = append(node.Spec.Drivers, d)
	_, err = w.User.StorageV1().CSINodes().Update(context.Background(), node, metav1.UpdateOptions{})
	w.NoError(err)
}

// ownCSINode checks that a CSINode exists, that it belongs to the Node, and its list of migrated
// plugins.
func (w *world) ownCSINode() {
	w.Helper()
	own, there := w.Server.Get("csinodes", "", node1)
	if !there {
		w.Fatal("there is no CSINode")
	}
	node, _ := w.Server.Get("nodes", "", node1)
	testcheck.Equal(w, "owner", []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: node1, UID: node.GetUID()}},
		own.GetOwnerReferences())
	testcheck.Equal(w, "migrated plugins", migrated, own.GetAnnotations()[corev1.MigratedPluginsAnnotationKey])
}

func limit(n int32) *storagev1.VolumeNodeResources { return &storagev1.VolumeNodeResources{Count: &n} }

// nodeInfo is what a driver reports of its node.
func nodeInfo(id string, limit int64, segments map[string]string) *csispec.NodeGetInfoResponse {
	info := &csispec.NodeGetInfoResponse{NodeId: id, MaxVolumesPerNode: limit}
	if segments != nil {
		info.AccessibleTopology = &csispec.Topology{Segments: segments}
	}
	return info
}

const (
	ourDriver   = "csi.example.com"
	otherDriver = "other.example.com"
)

// entry is a driver in a CSINode.
func entry(name, id string, limit *storagev1.VolumeNodeResources, keys ...string) storagev1.CSINodeDriver {
	return storagev1.CSINodeDriver{Name: name, NodeID: id, Allocatable: limit, TopologyKeys: keys}
}

type pairs = map[string]string

func TestRegistrationOfTheArray(t *testing.T) {
	t.Parallel()
	d := arrayDisk(t)
	d.NoError(d.publish(array.DriverName, nodeInfo(node1, 0, nil)))
	testcheck.Equal(d, "drivers", []storagev1.CSINodeDriver{{Name: array.DriverName, NodeID: node1}}, d.registered())
	testcheck.Equal(d, "annotation", `{"array.csi.volsim.dev":"node-1"}`, d.annotation())
	d.ownCSINode()
}

// TestInstall publishes a driver on nodes with various existing state.
func TestInstall(t *testing.T) {
	t.Parallel()
	zone, rack := "example.com/zone", "other.example.com/rack"
	tests := []struct {
		name   string
		ids    pairs // of the Node's annotation
		labels pairs
		before []storagev1.CSINodeDriver // of the CSINode; nil: there is none
		former bool                      // the CSINode is that of an earlier Node
		says   *csispec.NodeGetInfoResponse

		fails      bool
		wantIDs    pairs
		wantLabels pairs
		want       []storagev1.CSINodeDriver
	}{
		{
			name: "nothing is known", says: nodeInfo("id", 0, pairs{zone: "a"}),
			wantIDs: pairs{ourDriver: "id"}, wantLabels: pairs{zone: "a"},
			want: []storagev1.CSINodeDriver{entry(ourDriver, "id", nil, zone)},
		},
		{
			name: "all is known", ids: pairs{ourDriver: "id"}, labels: pairs{zone: "a"},
			before: []storagev1.CSINodeDriver{entry(ourDriver, "id", nil, zone)}, says: nodeInfo("id", 0, pairs{zone: "a"}),
			wantIDs: pairs{ourDriver: "id"}, wantLabels: pairs{zone: "a"},
			want: []storagev1.CSINodeDriver{entry(ourDriver, "id", nil, zone)},
		},
		{
			name: "all but the topology is known", ids: pairs{ourDriver: "id"},
			before: []storagev1.CSINodeDriver{entry(ourDriver, "id", nil)}, says: nodeInfo("id", 0, pairs{zone: "a"}),
			wantIDs: pairs{ourDriver: "id"}, wantLabels: pairs{zone: "a"},
			want: []storagev1.CSINodeDriver{entry(ourDriver, "id", nil, zone)},
		},
		{
			name: "another driver is known", ids: pairs{otherDriver: "x"}, labels: pairs{rack: "r"},
			before: []storagev1.CSINodeDriver{entry(otherDriver, "x", nil, rack)}, says: nodeInfo("id", 0, pairs{zone: "a"}),
			wantIDs: pairs{ourDriver: "id", otherDriver: "x"}, wantLabels: pairs{zone: "a", rack: "r"},
			want: []storagev1.CSINodeDriver{entry(otherDriver, "x", nil, rack), entry(ourDriver, "id", nil, zone)},
		},
		{
			name: "the node is in another zone", ids: pairs{ourDriver: "id"}, labels: pairs{zone: "a"},
			before: []storagev1.CSINodeDriver{entry(ourDriver, "id", nil, zone)}, says: nodeInfo("id", 0, pairs{zone: "b"}),
			fails: true, wantIDs: pairs{ourDriver: "id"}, wantLabels: pairs{zone: "a"},
			want: []storagev1.CSINodeDriver{entry(ourDriver, "id", nil, zone)},
		},
		{
			name: "another id and other segments", ids: pairs{ourDriver: "id"}, labels: pairs{zone: "a"},
			before: []storagev1.CSINodeDriver{entry(ourDriver, "id", nil, zone)}, says: nodeInfo("new", 0, pairs{rack: "r"}),
			wantIDs: pairs{ourDriver: "new"}, wantLabels: pairs{zone: "a", rack: "r"},
			want: []storagev1.CSINodeDriver{entry(ourDriver, "new", nil, rack)},
		},
		{
			name: "the CSINode of an earlier node", former: true, before: []storagev1.CSINodeDriver{},
			says:    nodeInfo("id", 0, nil),
			wantIDs: pairs{ourDriver: "id"}, want: []storagev1.CSINodeDriver{entry(ourDriver, "id", nil)},
		},
		{
			name: "the CSINode of an earlier node with a driver", former: true,
			before: []storagev1.CSINodeDriver{entry(otherDriver, "x", nil)},
			says:   nodeInfo("id", 0, nil), wantIDs: pairs{ourDriver: "id"},
			want: []storagev1.CSINodeDriver{entry(ourDriver, "id", nil)},
		},
		{
			name: "no topology", says: nodeInfo("id", 0, nil), wantIDs: pairs{ourDriver: "id"},
			want: []storagev1.CSINodeDriver{entry(ourDriver, "id", nil)},
		},
		{
			name: "no topology any more", ids: pairs{ourDriver: "id"}, labels: pairs{zone: "a"},
			before: []storagev1.CSINodeDriver{entry(ourDriver, "id", nil, zone)}, says: nodeInfo("id", 0, nil),
			wantIDs: pairs{ourDriver: "id"}, wantLabels: pairs{zone: "a"},
			want: []storagev1.CSINodeDriver{entry(ourDriver, "id", nil)},
		},
		{
			name: "no topology next to another driver's", ids: pairs{otherDriver: "x"}, labels: pairs{rack: "r"},
			before: []storagev1.CSINodeDriver{entry(otherDriver, "x", nil, rack)}, says: nodeInfo("id", 0, nil),
			wantIDs: pairs{ourDriver: "id", otherDriver: "x"}, wantLabels: pairs{rack: "r"},
			want: []storagev1.CSINodeDriver{entry(otherDriver, "x", nil, rack), entry(ourDriver, "id", nil)},
		},
		{name: "no node id", says: nodeInfo("", 0, nil), fails: true},
		{
			name: "a limit", says: nodeInfo("id", 10, nil), wantIDs: pairs{ourDriver: "id"},
			want: []storagev1.CSINodeDriver{entry(ourDriver, "id", limit(10))},
		},
		{
			name: "the highest limit", says: nodeInfo("id", math.MaxInt32, nil), wantIDs: pairs{ourDriver: "id"},
			want: []storagev1.CSINodeDriver{entry(ourDriver, "id", limit(math.MaxInt32))},
		},
		{
			name: "a limit beyond what the API can say", says: nodeInfo("id", math.MaxInt32+1, nil),
			wantIDs: pairs{ourDriver: "id"},
			want:    []storagev1.CSINodeDriver{entry(ourDriver, "id", limit(math.MaxInt32))},
		},
		{
			name: "a negative limit", says: nodeInfo("id", -1, nil), wantIDs: pairs{ourDriver: "id"},
			want: []storagev1.CSINodeDriver{entry(ourDriver, "id", nil)},
		},
		{
			name: "another limit", before: []storagev1.CSINodeDriver{entry(ourDriver, "id", limit(10))},
			says:    nodeInfo("id", 20, nil),
			wantIDs: pairs{ourDriver: "id"}, want: []storagev1.CSINodeDriver{entry(ourDriver, "id", limit(20))},
		},
		{
			name: "another id, and no CSINode", ids: pairs{ourDriver: "old"}, says: nodeInfo("id", 0, nil),
			wantIDs: pairs{ourDriver: "id"}, want: []storagev1.CSINodeDriver{entry(ourDriver, "id", nil)},
		},
		{
			name: "another driver in the annotation, and no CSINode", ids: pairs{otherDriver: "x"}, says: nodeInfo("id", 0, nil),
			wantIDs: pairs{otherDriver: "x", ourDriver: "id"}, want: []storagev1.CSINodeDriver{entry(ourDriver, "id", nil)},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.given(tt.ids, tt.labels)
			if tt.before != nil {
				w.csiNode(map[bool]types.UID{true: "of-an-earlier-node"}[tt.former], tt.before...)
			}
			if err := w.publish(ourDriver, tt.says); (err != nil) != tt.fails {
				t.Fatalf("error %v, want one: %v", err, tt.fails)
			}
			w.stands(tt.wantIDs, tt.wantLabels, tt.want)
			if len(tt.want) > 0 {
				w.ownCSINode()
			}
		})
	}
}

// given is the initial state of a Node.
func (w *world) given(ids, labels pairs) {
	w.Helper()
	text, err := json.Marshal(ids)
	w.NoError(err)
	w.patch(func(n *corev1.Node) {
		n.Labels = labels
		if ids != nil {
			n.Annotations = pairs{nodeIDs: string(text)}
		}
	})
}

// stands checks the Node and its CSINode.
func (w *world) stands(ids, labels pairs, drivers []storagev1.CSINodeDriver) {
	w.Helper()
	node, _ := w.Server.Get("nodes", "", node1)
	text, there := node.GetAnnotations()[nodeIDs]
	var is pairs
	if there {
		w.NoError(json.Unmarshal([]byte(text), &is))
	}
	if there != (len(ids) > 0) {
		w.Errorf("there is an annotation %q: %v", text, there)
	}
	testcheck.Equal(w, "node ids", ids, is)
	testcheck.Equal(w, "labels", labels, node.GetLabels())
	testcheck.Equal(w, "drivers", drivers, w.registered())
}

// TestUninstall removes a driver from the cluster.
func TestUninstall(t *testing.T) {
	t.Parallel()
	zone := "example.com/zone"
	tests := []struct {
		name        string
		ids, labels pairs
		before      []storagev1.CSINodeDriver // nil: there is no CSINode

		wantIDs pairs
		want    []storagev1.CSINodeDriver
		writes  []string
	}{
		{name: "nothing is known", before: []storagev1.CSINodeDriver{}},
		{
			name: "the driver is known", ids: pairs{ourDriver: "id"}, labels: pairs{zone: "a"},
			before: []storagev1.CSINodeDriver{entry(ourDriver, "id", nil, zone)}, writes: []string{"update", "patch"},
		},
		{
			name: "another driver is known", ids: pairs{otherDriver: "x"}, labels: pairs{zone: "a"},
			before:  []storagev1.CSINodeDriver{entry(otherDriver, "x", nil, zone)},
			wantIDs: pairs{otherDriver: "x"}, want: []storagev1.CSINodeDriver{entry(otherDriver, "x", nil, zone)},
		},
		{
			name: "another driver is known, too", ids: pairs{otherDriver: "x", ourDriver: "id"},
			before:  []storagev1.CSINodeDriver{entry(ourDriver, "id", nil), entry(otherDriver, "x", nil, zone)},
			wantIDs: pairs{otherDriver: "x"}, want: []storagev1.CSINodeDriver{entry(otherDriver, "x", nil, zone)},
			writes: []string{"update", "patch"},
		},
		{name: "the driver in the annotation only", ids: pairs{ourDriver: "id"}, writes: []string{"patch"}},
		{name: "another driver in the annotation only", ids: pairs{otherDriver: "x"}, wantIDs: pairs{otherDriver: "x"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.given(tt.ids, tt.labels)
			if tt.before != nil {
				w.csiNode("", tt.before...)
			}
			w.NoError(w.do(func(ctx context.Context) error {
				return w.plugin.DeregisterPlugin(ctx, plugins.Registration{Name: ourDriver})
			}))
			w.stands(tt.wantIDs, tt.labels, tt.want) // labels stay
			writes := slices.DeleteFunc(w.calls(trace.KindAPI), func(verb string) bool { return strings.HasPrefix(verb, "get") })
			testcheck.Equal(w, "writes", tt.writes, writes)
		})
	}
}

func TestMigratedPlugins(t *testing.T) {
	t.Parallel()
	const key = corev1.MigratedPluginsAnnotationKey
	tests := []struct {
		name       string
		before     pairs
		migrated   plugins.Migration
		want       pairs
		wantChange bool
	}{
		{name: "none", want: nil},
		{name: "one", migrated: plugins.Migration{"test": ""}, want: pairs{key: "test"}, wantChange: true},
		{
			name: "one that is named", before: pairs{key: "test"}, migrated: plugins.Migration{"test": ""},
			want: pairs{key: "test"},
		},
		{name: "none any more", before: pairs{key: "test"}, want: pairs{}, wantChange: true},
		{
			name: "one next to another annotation", before: pairs{"other": "annotation"},
			migrated: plugins.Migration{"test": ""},
			want:     pairs{key: "test", "other": "annotation"}, wantChange: true,
		},
		{
			name: "another one", before: pairs{key: "foo", "other": "annotation"}, migrated: plugins.Migration{"test": ""},
			want: pairs{key: "test", "other": "annotation"}, wantChange: true,
		},
		{
			name: "two", before: pairs{"other": "annotation"}, migrated: plugins.Migration{"test": "", "foo": ""},
			want: pairs{key: "foo,test", "other": "annotation"}, wantChange: true,
		},
		{
			name: "two in another order", before: pairs{key: "test,foo"}, migrated: plugins.Migration{"test": "", "foo": ""},
			want: pairs{key: "test,foo"},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			node := &storagev1.CSINode{ObjectMeta: metav1.ObjectMeta{Annotations: tt.before}}
			if changed := csi.MarkMigrated(node, tt.migrated); changed != tt.wantChange {
				t.Errorf("changed: %v, want %v", changed, tt.wantChange)
			}
			testcheck.Equal(t, "annotations", tt.want, node.Annotations)
		})
	}
}

func TestRegistrationKeepsOtherDrivers(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.annotate(`{"old.example.com":"x"}`)
	w.NoError(w.publish("b.example.com", nodeInfo("b", 0, nil)))
	w.NoError(w.publish("a.example.com", nodeInfo("a", 3, nil)))
	want := []storagev1.CSINodeDriver{
		{Name: "b.example.com", NodeID: "b"},
		{Name: "a.example.com", NodeID: "a", Allocatable: limit(3)},
	}
	testcheck.Equal(w, "drivers", want, w.registered())
	var ids map[string]string
	w.NoError(json.Unmarshal([]byte(w.annotation()), &ids))
	testcheck.Equal(w, "node ids", map[string]string{"old.example.com": "x", "b.example.com": "b", "a.example.com": "a"}, ids)
	node, _ := w.Server.Get("nodes", "", node1)
	testcheck.Equal(w, "another annotation", "kept", node.GetAnnotations()["other"])

	// Registering again writes changes only.
	w.NoError(w.publish("b.example.com", nodeInfo("b", 5, nil)))
	want[0].Allocatable = limit(5)
	testcheck.Equal(w, "drivers", want, w.registered())
	before := len(w.calls(trace.KindAPI))
	w.NoError(w.publish("b.example.com", nodeInfo("b", 5, nil)))
	testcheck.Equal(w, "requests when nothing has changed", []string{"get", "get"}, w.calls(trace.KindAPI)[before:])
}

// TestConcurrentRegistrations has another client write either object between the read and the
// write: the next attempt succeeds.
func TestConcurrentRegistrations(t *testing.T) {
	t.Parallel()
	other := storagev1.CSINodeDriver{Name: otherDriver, NodeID: "x"}
	tests := []struct {
		name, before string
		exists       bool // the CSINode
		meddle       func(w *world)
		want         []string // requests
	}{
		{
			"of the node", "api patch nodes/node-1", false, func(w *world) { w.annotate(`{"other.example.com":"x"}`) },
			[]string{"get", "patch!", "get", "patch", "get!", "get", "create", "update"},
		},
		{
			"of the CSINode", "api update csinodes/node-1", true, func(w *world) { w.addDriver(other) },
			[]string{"get", "patch", "get", "update!", "get", "update"},
		},
		{
			"of the CSINode's creation", "api create csinodes/node-1", false,
			func(w *world) { w.csiNode(""); w.addDriver(other) },
			[]string{"get", "patch", "get!", "get", "create!", "get", "update"},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			if tt.exists {
				w.csiNode("")
			}
			o := w.begin(func(ctx context.Context) error { return w.plugin.Publish(ctx, ourDriver, nodeInfo("id", 0, nil)) })
			w.upTo(tt.before)
			tt.meddle(w)
			w.Run()
			if !o.done || o.err != nil {
				t.Fatalf("done %v, error %v", o.done, o.err)
			}
			testcheck.Equal(w, "requests", tt.want, w.calls(trace.KindAPI))
			var names []string
			for _, d := range w.registered() {
				names = append(names, d.Name)
			}
			want := []string{otherDriver, ourDriver}
			if tt.before == "api patch nodes/node-1" {
				want = want[1:]
				testcheck.Equal(w, "annotation", `{"csi.example.com":"id","other.example.com":"x"}`, w.annotation())
			}
			testcheck.Equal(w, "drivers", want, names)
		})
	}
}

// TestRegistrationFails has all attempts fail: there are four, with delays between them.
func TestRegistrationFails(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name     string
		meddle   func(w *world)
		text     string
		requests []string
	}{
		{
			"the annotation is not what it should be", func(w *world) { w.annotate("nonsense") },
			`error updating Node object with CSI driver node info: error updating node: timed out waiting for the condition; caused by: ` +
				`failed to parse node's "csi.volume.kubernetes.io/nodeid" annotation value ("nonsense") err=invalid character 'o' in literal null (expecting 'u')`,
			[]string{"get", "get", "get", "get"},
		},
		{
			"there is no node", func(w *world) {
				w.NoError(w.User.CoreV1().Nodes().Delete(context.Background(), node1, metav1.DeleteOptions{}))
			},
			`error updating Node object with CSI driver node info: error updating node: timed out waiting for the condition; caused by: nodes "node-1" not found`,
			[]string{"get!", "get!", "get!", "get!"},
		},
		{
			"the node is somewhere else", func(w *world) { w.given(nil, pairs{"zone": "a"}) },
			`error updating Node object with CSI driver node info: error updating node: timed out waiting for the condition; caused by: ` +
				`detected topology value collision: driver reported "zone":"b" but existing label is "zone":"a"`,
			[]string{"get", "get", "get", "get"},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			tt.meddle(w)
			err := w.publish(ourDriver, nodeInfo("id", 0, pairs{"zone": "b"}))
			if err == nil || err.Error() != tt.text {
				t.Errorf("error\n%v\nwant\n%s", err, tt.text)
			}
			testcheck.Equal(w, "requests", tt.requests, w.calls(trace.KindAPI))
			if took := w.Host.Now().Sub(sim.Epoch).Milliseconds(); took != 310 {
				t.Errorf("it took %d ms, want 10, 50 and 250", took)
			}
		})
	}
}

// TestCSINodeOwnership initializes the CSINode whatever exists of it, and whatever the kubelet
// knows of the Node.
func TestCSINodeOwnership(t *testing.T) {
	t.Parallel()
	old := entry(ourDriver, "id", nil)
	tests := []struct {
		name    string
		knows   bool // the Node's UID
		before  func(w *world)
		fails   bool
		want    []storagev1.CSINodeDriver
		missing bool
		asks    []string
	}{
		{name: "there is none", knows: true, before: func(*world) {}, asks: []string{"get!", "get", "create"}},
		{
			name: "there is one", knows: true, before: func(w *world) { w.csiNode("", old) },
			want: []storagev1.CSINodeDriver{old}, asks: []string{"get"},
		},
		{
			name: "there is one, and the Node is not known", before: func(w *world) { w.csiNode("", old) },
			want: []storagev1.CSINodeDriver{old}, asks: []string{"get", "get"},
		},
		{
			name: "it does not say what is migrated", knows: true, before: func(w *world) {
				w.csiNode("", old)
				_, err := w.User.StorageV1().CSINodes().Patch(context.Background(), node1, types.MergePatchType,
					[]byte(`{"metadata":{"annotations":null}}`), metav1.PatchOptions{})
				w.NoError(err)
			},
			want: []storagev1.CSINodeDriver{old}, asks: []string{"get", "update"},
		},
		{
			name: "it is that of an earlier Node", knows: true, before: func(w *world) { w.csiNode("earlier", old) },
			fails: true, missing: true, asks: []string{"get", "get", "delete"},
		},
		{
			name: "there is no Node", knows: true, before: func(w *world) {
				w.NoError(w.User.CoreV1().Nodes().Delete(context.Background(), node1, metav1.DeleteOptions{}))
			},
			fails: true, missing: true, asks: []string{"get!", "get!"},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			var uid types.UID
			if node, _ := w.Server.Get("nodes", "", node1); tt.knows {
				uid = node.GetUID()
			}
			tt.before(w)
			initialize := func(ctx context.Context) error { return w.plugin.InitializeCSINode(ctx, uid) }
			if err := w.do(initialize); (err != nil) != tt.fails {
				t.Errorf("error %v, want one: %v", err, tt.fails)
			}
			testcheck.Equal(w, "requests", tt.asks, w.calls(trace.KindAPI))
			if _, there := w.Server.Get("csinodes", "", node1); there == tt.missing {
				t.Fatalf("there is a CSINode: %v", there)
			}
			if _, there := w.Server.Get("nodes", "", node1); there {
				if tt.fails {
					w.NoError(w.do(initialize))
				}
				w.ownCSINode()
				testcheck.Equal(w, "drivers", tt.want, w.registered())
			}
		})
	}
}

// TestRecreatedCSINodeIsNotDeleted replaces the CSINode of an earlier Node by the Node's own before
// it is deleted.
func TestRecreatedCSINodeIsNotDeleted(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.csiNode("earlier", entry(otherDriver, "x", nil))
	o := w.begin(func(ctx context.Context) error { return w.plugin.InitializeCSINode(ctx, "") })
	w.upTo("api delete csinodes/node-1")
	w.NoError(w.User.StorageV1().CSINodes().Delete(t.Context(), node1, metav1.DeleteOptions{}))
	w.csiNode("", entry(otherDriver, "y", nil))
	w.Run()
	if !o.done || o.err == nil {
		t.Errorf("done %v, error %v; want one", o.done, o.err)
	}
	testcheck.Equal(w, "drivers", []storagev1.CSINodeDriver{entry(otherDriver, "y", nil)}, w.registered())
}
