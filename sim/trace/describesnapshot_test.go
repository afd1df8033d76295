package trace_test

import (
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/volsim/volsim/sim/trace"
)

// TestSnapshotsAreDescribed checks the sentences about snapshots, groups and contents.
func TestSnapshotsAreDescribed(t *testing.T) {
	object := func(kind, group, namespace, name string, spec, status map[string]any) *unstructured.Unstructured {
		o := &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": group + "/v1", "kind": kind, "metadata": map[string]any{"name": name}, "spec": spec, "status": status,
		}}
		o.SetNamespace(namespace)
		return o
	}
	const group, groups = "snapshot.storage.k8s.io", "groupsnapshot.storage.k8s.io"
	snapshot := func(status map[string]any) *unstructured.Unstructured {
		return object("VolumeSnapshot", group, "default", "s", map[string]any{"source": map[string]any{"persistentVolumeClaimName": "data"}}, status)
	}
	content := func(status map[string]any) *unstructured.Unstructured {
		return object("VolumeSnapshotContent", group, "", "c", map[string]any{"volumeSnapshotRef": map[string]any{"namespace": "default", "name": "s"}}, status)
	}
	of := func(status map[string]any) *unstructured.Unstructured {
		return object("VolumeGroupSnapshot", groups, "default", "all",
			map[string]any{"source": map[string]any{"selector": map[string]any{"matchLabels": map[string]any{"app": "db"}}}}, status)
	}
	existing := object("VolumeSnapshot", group, "default", "s", map[string]any{"source": map[string]any{"volumeSnapshotContentName": "c"}}, nil)
	for want, change := range map[string]struct {
		before, after runtime.Object
	}{
		"creates snapshot default/s of claim data":                     {nil, snapshot(nil)},
		"creates snapshot default/s of content c":                      {nil, existing},
		"creates group snapshot default/all of the claims with app=db": {nil, of(nil)},
		"creates snapshot content c for snapshot default/s":            {nil, content(nil)},
		"binds snapshot default/s to content c":                        {snapshot(nil), snapshot(map[string]any{"boundVolumeSnapshotContentName": "c", "readyToUse": true})},
		"binds group snapshot default/all to content g":                {of(nil), of(map[string]any{"boundVolumeGroupSnapshotContentName": "g"})},
		"reports snapshot content c taken as snap-1":                   {content(nil), content(map[string]any{"snapshotHandle": "snap-1", "readyToUse": false})},
		"reports snapshot content c ready to use":                      {content(nil), content(map[string]any{"snapshotHandle": "snap-1", "readyToUse": true})},
		"reports an error of snapshot default/s: no space":             {snapshot(nil), snapshot(map[string]any{"error": map[string]any{"message": "no space"}})},
		"reports snapshot default/s not ready to use":                  {snapshot(map[string]any{"readyToUse": true}), snapshot(map[string]any{"readyToUse": false})},
	} {
		record := trace.Record{Action: trace.Action{Kind: trace.KindAPI, Verb: "update"}}
		if record.After = change.after; change.before != nil {
			record.Before = change.before
		}
		if got, ok := trace.Describe(record); got != want || !ok {
			t.Errorf("got %q, %v\nwant %q", got, ok, want)
		}
	}
	if got := trace.State(snapshot(map[string]any{"readyToUse": true})); got != "ready to use" {
		t.Errorf("state %q", got)
	}
	if got := trace.State(content(map[string]any{"readyToUse": false})); got != "not ready to use" {
		t.Errorf("state %q", got)
	}
}
