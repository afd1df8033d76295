package csi_test

import (
	"context"
	"encoding/json"
	"errors"
	"testing"

	csispec "github.com/container-storage-interface/spec/lib/go/csi"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/volsim/volsim/plugins/array"
	"github.com/volsim/volsim/trace"
)

const nodeIDs = "csi.volume.kubernetes.io/nodeid"

func (w *world) publish(driver string, info *csispec.NodeGetInfoResponse) error {
	w.t.Helper()
	return w.do(func(ctx context.Context) error { return w.plugin.Publish(ctx, driver, info) })
}

// registered are the drivers of the CSINode.
func (w *world) registered() []storagev1.CSINodeDriver {
	object, ok := w.server.Get("csinodes", "", node1)
	if !ok {
		return nil
	}
	return object.(*storagev1.CSINode).Spec.Drivers
}

func (w *world) annotation() string {
	object, _ := w.server.Get("nodes", "", node1)
	return object.GetAnnotations()[nodeIDs]
}

func (w *world) annotate(value string) {
	w.t.Helper()
	nodes := w.user.CoreV1().Nodes()
	node, err := nodes.Get(context.Background(), node1, metav1.GetOptions{})
	w.must(err)
	node.Annotations = map[string]string{nodeIDs: value, "other": "kept"}
	_, err = nodes.Update(context.Background(), node, metav1.UpdateOptions{})
	w.must(err)
}

func limit(n int32) *storagev1.VolumeNodeResources { return &storagev1.VolumeNodeResources{Count: &n} }

func TestRegistrationOfTheArray(t *testing.T) {
	t.Parallel()
	d := arrayDisk(t)
	d.must(d.publish(array.DriverName, &csispec.NodeGetInfoResponse{NodeId: node1}))
	d.same("drivers", []storagev1.CSINodeDriver{{Name: array.DriverName, NodeID: node1}}, d.registered())
	d.same("annotation", `{"array.csi.volsim.dev":"node-1"}`, d.annotation())
	csiNode, _ := d.server.Get("csinodes", "", node1)
	node, _ := d.server.Get("nodes", "", node1)
	d.same("owner", []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: node1, UID: node.GetUID()}}, csiNode.GetOwnerReferences())
}

func TestEntryOfADriver(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name string
		info *csispec.NodeGetInfoResponse
		want storagev1.CSINodeDriver
	}{
		{"no limit", &csispec.NodeGetInfoResponse{NodeId: "id"}, storagev1.CSINodeDriver{NodeID: "id"}},
		{"negative limit", &csispec.NodeGetInfoResponse{NodeId: "id", MaxVolumesPerNode: -1}, storagev1.CSINodeDriver{NodeID: "id"}},
		{"limit", &csispec.NodeGetInfoResponse{NodeId: "id", MaxVolumesPerNode: 16}, storagev1.CSINodeDriver{NodeID: "id", Allocatable: limit(16)}},
		{"limit beyond what the API can say", &csispec.NodeGetInfoResponse{NodeId: "id", MaxVolumesPerNode: 1 << 40}, storagev1.CSINodeDriver{NodeID: "id", Allocatable: limit(1<<31 - 1)}},
		{"topology", &csispec.NodeGetInfoResponse{NodeId: "id", AccessibleTopology: &csispec.Topology{
			Segments: map[string]string{"example.com/zone": "z", "example.com/rack": "r"},
		}}, storagev1.CSINodeDriver{NodeID: "id", TopologyKeys: []string{"example.com/rack", "example.com/zone"}}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.must(w.publish("csi.example.com", tt.info))
			tt.want.Name = "csi.example.com"
			w.same("drivers", []storagev1.CSINodeDriver{tt.want}, w.registered())
		})
	}
}

func TestRegistrationBesideOtherDrivers(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.annotate(`{"old.example.com":"x"}`)
	w.must(w.publish("b.example.com", &csispec.NodeGetInfoResponse{NodeId: "b"}))
	w.must(w.publish("a.example.com", &csispec.NodeGetInfoResponse{NodeId: "a", MaxVolumesPerNode: 3}))
	want := []storagev1.CSINodeDriver{{Name: "b.example.com", NodeID: "b"}, {Name: "a.example.com", NodeID: "a", Allocatable: limit(3)}}
	w.same("drivers", want, w.registered())
	var ids map[string]string
	w.must(json.Unmarshal([]byte(w.annotation()), &ids))
	w.same("node ids", map[string]string{"old.example.com": "x", "b.example.com": "b", "a.example.com": "a"}, ids)
	node, _ := w.server.Get("nodes", "", node1)
	w.same("another annotation", "kept", node.GetAnnotations()["other"])

	// Registering again changes what has changed and nothing else.
	w.must(w.publish("b.example.com", &csispec.NodeGetInfoResponse{NodeId: "b", MaxVolumesPerNode: 5}))
	want[0].Allocatable = limit(5)
	w.same("drivers", want, w.registered())
	before := w.server.Revision()
	w.must(w.publish("b.example.com", &csispec.NodeGetInfoResponse{NodeId: "b", MaxVolumesPerNode: 5}))
	w.same("revision after nothing has changed", before, w.server.Revision())
}

// TestConflictOfRegistrations has somebody else write between the read and the write, of either object.
func TestConflictOfRegistrations(t *testing.T) {
	t.Parallel()
	info := &csispec.NodeGetInfoResponse{NodeId: "id"}
	other := storagev1.CSINodeDriver{Name: "other.example.com", NodeID: "x"}
	tests := []struct {
		name, before string
		exists       bool // the CSINode
		is           func(error) bool
		meddle       func(w *world)
	}{
		{"of the node", "api patch nodes/node-1", false, apierrors.IsConflict, func(w *world) { w.annotate(`{"other.example.com":"x"}`) }},
		{"of the CSINode", "api update csinodes/node-1", true, apierrors.IsConflict, func(w *world) { w.addDriver(other) }},
		{"of the CSINode's creation", "api create csinodes/node-1", false, apierrors.IsAlreadyExists, func(w *world) { w.csiNode(); w.addDriver(other) }},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			if tt.exists {
				w.csiNode()
			}
			o := w.begin(func(ctx context.Context) error { return w.plugin.Publish(ctx, "csi.example.com", info) })
			w.upTo(tt.before)
			tt.meddle(w)
			w.run()
			var status apierrors.APIStatus
			if !o.done || !errors.As(o.err, &status) || !tt.is(o.err) {
				t.Fatalf("error %v, want a conflict", o.err)
			}
			w.must(w.publish("csi.example.com", info))
			var names []string
			for _, d := range w.registered() {
				names = append(names, d.Name)
			}
			want := []string{"other.example.com", "csi.example.com"}
			if tt.before == "api patch nodes/node-1" {
				want = want[1:]
				w.same("annotation", `{"csi.example.com":"id","other.example.com":"x"}`, w.annotation())
			}
			w.same("drivers", want, names)
		})
	}
}

func (w *world) csiNode() {
	w.t.Helper()
	_, err := w.user.StorageV1().CSINodes().Create(context.Background(), &storagev1.CSINode{ObjectMeta: metav1.ObjectMeta{Name: node1}}, metav1.CreateOptions{})
	w.must(err)
}

func (w *world) addDriver(d storagev1.CSINodeDriver) {
	w.t.Helper()
	node, err := w.user.StorageV1().CSINodes().Get(context.Background(), node1, metav1.GetOptions{})
	w.must(err)
	node.Spec.Drivers = append(node.Spec.Drivers, d)
	_, err = w.user.StorageV1().CSINodes().Update(context.Background(), node, metav1.UpdateOptions{})
	w.must(err)
}

func TestRegistrationFails(t *testing.T) {
	t.Parallel()
	info := &csispec.NodeGetInfoResponse{NodeId: "id"}
	t.Run("the annotation is not what it should be", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		w.annotate("nonsense")
		var syntax *json.SyntaxError
		if err := w.publish("csi.example.com", info); !errors.As(err, &syntax) {
			t.Errorf("error %v, want a syntax error", err)
		}
		w.same("annotation", "nonsense", w.annotation())
	})
	t.Run("there is no node", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		w.must(w.user.CoreV1().Nodes().Delete(t.Context(), node1, metav1.DeleteOptions{}))
		if err := w.publish("csi.example.com", info); !apierrors.IsNotFound(err) {
			t.Errorf("error %v, want not found", err)
		}
		w.same("requests", []string{"get!"}, w.calls(trace.KindAPI))
	})
}
