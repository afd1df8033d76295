package volumebinding

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"

	"github.com/volsim/volsim/scheduler/internal/framework"
)

// A hintRow is a row of one of upstream's tables of hints. old and new are versions of an object.
type hintRow struct {
	pod      *corev1.Pod // nil: without volumes
	old, new any
	want     bool
}

func testHint(t *testing.T, of framework.EventResource, w *rig, rows map[string]hintRow) {
	t.Helper()
	for name, row := range rows {
		t.Run(name, func(t *testing.T) {
			event := framework.Event{Resource: of, Action: framework.UpdateOther, Old: row.old, New: row.new}
			if row.old == nil {
				event.Action = framework.Add
			}
			if row.pod == nil {
				row.pod = pod("p")
			}
			got := false
			for _, hint := range w.plugin.Events() {
				got = got || hint.Matches(&event, row.pod)
			}
			if got != row.want {
				t.Errorf("matches: %v", got)
			}
		})
	}
}

func TestIsSchedulableAfterCSINodeChange(t *testing.T) {
	testHint(t, framework.CSINode, newRig(t, Args{}), map[string]hintRow{
		"unexpected objects are passed":                                         {old: new(int), new: new(int), want: true},
		"CSINode is newly created":                                              {new: csiNode("n1", ""), want: true},
		"CSINode's migrated-plugins annotations is added":                       {old: csiNode("n1", "test1"), new: csiNode("n1", "test1, test2"), want: true},
		"CSINode's migrated-plugins annotation is updated":                      {old: csiNode("n1", "test1"), new: csiNode("n1", "test2"), want: true},
		"CSINode is updated but migrated-plugins annotation gets unchanged":     {old: csiNode("n1", "test1"), new: csiNode("n1", "test1")},
		"the first migrated plugin (not in upstream's table)":                   {old: &storagev1.CSINode{}, new: csiNode("n1", "test1"), want: true},
		"no migrated plugins, before and after, not in upstream's table either": {old: &storagev1.CSINode{}, new: csiNode("n1", "")},
	})
}

func TestIsSchedulableAfterPersistentVolumeClaimChange(t *testing.T) {
	other := claim("b", "1G", waits)
	other.Namespace = "other"
	uses := pod("p", "a", "b")
	ephemeral := withEphemeral(withEphemeral(pod("p"), "a"), "b")
	testHint(t, framework.PersistentVolumeClaim, newRig(t, Args{}), map[string]hintRow{
		"pod has no pvc or ephemeral volumes":                                                    {old: claim("b", "1G", waits), new: claim("b", "1G", waits)},
		"pvc with the same name as the one used by the pod in a different namespace is modified": {pod: uses, new: other},
		"pod has no pvc that is being modified":                                                  {pod: uses, old: claim("c", "1G", waits), new: claim("c", "1G", waits)},
		"pod has no generic ephemeral volume that is being modified": {
			pod: ephemeral, old: claim("p-c", "1G", waits), new: claim("p-c", "1G", waits),
		},
		"pod has the pvc that is being modified": {pod: uses, old: claim("b", "1G", waits), new: claim("b", "1G", waits), want: true},
		"pod has the generic ephemeral volume that is being modified": {
			pod: ephemeral, old: claim("p-b", "1G", waits), new: claim("p-b", "1G", waits), want: true,
		},
		"type conversion error": {old: new(int), new: new(int), want: true},
	})
}

func TestIsSchedulableAfterStorageClassChange(t *testing.T) {
	plain, topology := &storagev1.StorageClass{}, &storagev1.StorageClass{AllowedTopologies: []corev1.TopologySelectorTerm{{}}}
	testHint(t, framework.StorageClass, newRig(t, Args{}), map[string]hintRow{
		"When a new StorageClass is created, it returns Queue":                {new: plain, want: true},
		"When the AllowedTopologies are changed, it returns Queue":            {old: plain, new: topology, want: true},
		"When there are no changes to the StorageClass, it returns QueueSkip": {old: plain, new: plain.DeepCopy()},
		"type conversion error": {old: new(int), new: new(int), want: true},
	})
}

func TestIsSchedulableAfterCSIStorageCapacityChange(t *testing.T) {
	// free and largest in bytes; 0: not published
	of := func(free, largest int64) *storagev1.CSIStorageCapacity {
		c := &storagev1.CSIStorageCapacity{}
		if free != 0 {
			c.Capacity = resource.NewQuantity(free, resource.DecimalSI)
		}
		if largest != 0 {
			c.MaximumVolumeSize = resource.NewQuantity(largest, resource.DecimalSI)
		}
		return c
	}
	testHint(t, framework.CSIStorageCapacity, newRig(t, Args{}), map[string]hintRow{
		"When a new CSIStorageCapacity is created, it returns Queue":                      {new: of(0, 0), want: true},
		"When the volume limit is increase(Capacity set), it returns Queue":               {old: of(0, 0), new: of(100, 0), want: true},
		"When the volume limit is increase(MaximumVolumeSize set), it returns Queue":      {old: of(0, 0), new: of(0, 100), want: true},
		"When the volume limit is increase(Capacity increase), it returns Queue":          {old: of(50, 0), new: of(100, 0), want: true},
		"When the volume limit is increase(MaximumVolumeSize unset), it returns Queue":    {old: of(100, 50), new: of(100, 0), want: true},
		"When the volume limit is increase(MaximumVolumeSize increase), it returns Queue": {old: of(100, 50), new: of(100, 60), want: true},
		"When there are no changes to the CSIStorageCapacity, it returns QueueSkip":       {old: of(100, 50), new: of(100, 50)},
		"When the volume limit is equal(Capacity), it returns QueueSkip":                  {old: of(100, 0), new: of(100, 0)},
		"When the volume limit is equal(MaximumVolumeSize unset), it returns QueueSkip":   {old: of(100, 50), new: of(50, 0)},
		"When the volume limit is decrease(Capacity), it returns QueueSkip":               {old: of(100, 0), new: of(90, 0)},
		"When the volume limit is decrease(MaximumVolumeSize), it returns QueueSkip":      {old: of(0, 100), new: of(0, 90)},
		"nothing is published any more (not in upstream's table)":                         {old: of(100, 0), new: of(0, 0)},
		"type conversion error": {old: new(int), new: new(int), want: true},
	})
}

func TestIsSchedulableAfterCSIDriverChange(t *testing.T) {
	of := func(name string, publishes *bool) *storagev1.CSIDriver {
		d := &storagev1.CSIDriver{}
		d.Name, d.Spec.StorageCapacity = name, publishes
		return d
	}
	yes, no := ptr.To(true), ptr.To(false)
	inline := pod("p")
	inline.Spec.Volumes = []corev1.Volume{{VolumeSource: corev1.VolumeSource{CSI: &corev1.CSIVolumeSource{Driver: "driver"}}}}
	w := newRig(t, Args{})
	w.cached(classes()...)
	w.cached(toProvide)
	testHint(t, framework.CSIDriver, w, map[string]hintRow{
		"pod has no CSIDriver":                                {old: of("driver", nil), new: of("driver", yes)},
		"unexpected objects are passed":                       {old: new(int), new: new(int), want: true},
		"driver name in pod and csidriver name are different": {pod: inline, old: of("other", yes), new: of("other", no)},
		"original StorageCapacity is nil":                     {pod: inline, old: of("driver", nil), new: of("driver", nil)},
		"original StorageCapacity is false":                   {pod: inline, old: of("driver", no), new: of("driver", no)},
		"modified StorageCapacity is nil":                     {pod: inline, old: of("driver", yes), new: of("driver", nil), want: true},
		"modified StorageCapacity is true":                    {pod: inline, old: of("driver", yes), new: of("driver", yes)},
		"modified StorageCapacity is false":                   {pod: inline, old: of("driver", yes), new: of("driver", no), want: true},
		// not in upstream's table
		"of the class of a claim":         {pod: pod("p", "provided"), old: of("driver", yes), new: of("driver", no), want: true},
		"of no class of a claim":          {pod: pod("p", "provided"), old: of("other", yes), new: of("other", no)},
		"a claim of the pod is not known": {pod: pod("p", "unknown"), old: of("driver", yes), new: of("driver", no)},
	})
}

func TestEventsThatAlwaysHelp(t *testing.T) {
	w := newRig(t, Args{})
	for _, test := range []struct {
		of     framework.EventResource
		action framework.ActionType
		want   bool
	}{
		{framework.PersistentVolume, framework.Add, true},
		{framework.PersistentVolume, framework.UpdateOther, true},
		{framework.PersistentVolume, framework.Delete, false},
		{framework.PersistentVolumeClaim, framework.Delete, false},
		{framework.Node, framework.Add, true},
		{framework.Node, framework.UpdateNodeLabel, true},
		{framework.Node, framework.UpdateNodeTaint, false},
		{framework.Pod, framework.Delete, false},
		{framework.VolumeAttachment, framework.Delete, false},
		{framework.CSIDriver, framework.Add, false},
	} {
		event, got := framework.Event{Resource: test.of, Action: test.action}, false
		for _, hint := range w.plugin.Events() {
			got = got || hint.Matches(&event, pod("p"))
		}
		if got != test.want {
			t.Errorf("%s %b: %v", test.of, test.action, got)
		}
	}
}
