package invariant_test

import (
	"context"
	"errors"
	"testing"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	storagehelpers "k8s.io/component-helpers/storage/volume"

	"github.com/volsim/volsim/fake"
	_ "github.com/volsim/volsim/fake/crd" // for the records
	"github.com/volsim/volsim/internal/definitions"
	"github.com/volsim/volsim/internal/localstorage"
	"github.com/volsim/volsim/internal/testcheck"
	"github.com/volsim/volsim/sim"
	"github.com/volsim/volsim/sim/trace"
)

const (
	localHost    = localstorage.Provisioner
	localRecords = "nodelocalstorages." + localHost
	managerTask  = "localstorage(node-1)/work"
)

// localStorage adds node-1, a class with its disk, and the components of local storage.
func (s *scene) localStorage() {
	late := storagev1.VolumeBindingWaitForFirstConsumer
	ready := corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}}
	if err := definitions.InstallText(context.Background(), s.server, localstorage.Definition); err != nil {
		panic(err)
	}
	s.store(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-1"}, Status: ready}, &storagev1.StorageClass{
		ObjectMeta: metav1.ObjectMeta{Name: "fast"}, Provisioner: localHost, VolumeBindingMode: &late,
		Parameters: map[string]string{"nodes": `[{"node":"node-1","disks":["/dev/sdb"]}]`},
	})
	for _, name := range []string{"scheduler", "localstorage", "localstorage(node-1)"} {
		s.controller(name)
	}
	s.record("64Mi", "64Mi")
	s.settle()
}

// record writes the record of node-1. The volumes are names, each of 40 MiB.
func (s *scene) record(free, capacity string, volumes ...string) {
	listed := []any{}
	for _, name := range volumes {
		listed = append(listed, map[string]any{"name": name, "size": "40Mi"})
	}
	content := map[string]any{
		"spec": map[string]any{"storageClassName": "fast", "nodeName": "node-1", "disks": []any{"/dev/sdb"}},
		"status": map[string]any{
			"phase": "Ready", "capacity": capacity, "free": free, "maximumVolumeSize": free, "volumes": listed,
		},
	}
	if s.server.Count(localRecords) == 0 {
		s.store(&fake.CustomObject{
			TypeMeta:   metav1.TypeMeta{APIVersion: localHost + "/v1alpha1", Kind: "NodeLocalStorage"},
			ObjectMeta: metav1.ObjectMeta{Name: "fast.node-1"}, Content: content,
		})
		return
	}
	s.server.UpdateStored(localRecords, "", "fast.node-1", func(stored fake.Object) fake.Object {
		r := stored.DeepCopyObject().(*fake.CustomObject)
		r.Content = content
		return r
	})
}

// groupCall records a call of the manager of a node.
func (s *scene) groupCall(node, verb, volume string) {
	s.host.Log().Append(trace.Record{
		Task:    "localstorage(" + node + ")/work",
		Action:  trace.Action{Kind: trace.KindDriver, Verb: verb, Object: "localstorage/" + volume},
		Outcome: trace.Outcome{Detail: "node=" + node},
	})
}

// onNode1 makes a volume one of local storage on node-1.
func onNode1(v *corev1.PersistentVolume) {
	v.Spec.PersistentVolumeSource = corev1.PersistentVolumeSource{Local: &corev1.LocalVolumeSource{Path: "/dev/" + v.Name}}
	v.Spec.StorageClassName, v.Spec.PersistentVolumeReclaimPolicy = "fast", corev1.PersistentVolumeReclaimDelete
	metav1.SetMetaDataAnnotation(&v.ObjectMeta, storagehelpers.AnnDynamicallyProvisioned, localHost)
	v.Spec.NodeAffinity = &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
		MatchExpressions: []corev1.NodeSelectorRequirement{{
			Key: corev1.LabelHostname, Operator: corev1.NodeSelectorOpIn, Values: []string{"node-1"},
		}},
	}}}}
}

// nodeSelected makes a claim one of local storage, with a selected node; "" for none.
func nodeSelected(node string) func(*corev1.PersistentVolumeClaim) {
	return func(c *corev1.PersistentVolumeClaim) {
		class := "fast"
		c.Spec.StorageClassName = &class
		if delete(c.Annotations, storagehelpers.AnnSelectedNode); node != "" {
			metav1.SetMetaDataAnnotation(&c.ObjectMeta, storagehelpers.AnnSelectedNode, node)
		}
	}
}

// selects makes a task write the selected node of claim data.
func (s *scene) selects(task, node string) {
	s.act(task, "data", func(_ context.Context, client kubernetes.Interface, _ *sim.Process) {
		editClaimAs(client, "data", nodeSelected(node))
	})
}

// podOfData adds a pod that uses claim data.
func (s *scene) podOfData(edits ...func(*corev1.Pod)) {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "web"}, Spec: corev1.PodSpec{
		Containers: []corev1.Container{{Name: "main", Image: "pause"}}, Volumes: []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data"},
		}}},
	}}
	for _, edit := range edits {
		edit(pod)
	}
	testcheck.Must(s.user.CoreV1().Pods("default").Create(context.Background(), pod, createOptions))
}

// extenderSees records that the extender's cache has the newest version of the record.
func (s *scene) extenderSees() {
	obj, _ := s.server.Get(localRecords, "", "fast.node-1")
	s.host.Log().Append(trace.Record{
		Task:    "localstorage/nodelocalstorages",
		Action:  trace.Action{Kind: trace.KindDeliver, Verb: "MODIFIED", Object: "nodelocalstorages/fast.node-1"},
		Outcome: trace.Outcome{Detail: "rv=" + obj.GetResourceVersion()},
	})
}

// extenderIsAsked records that the scheduler asks the extender about the pod.
func (s *scene) extenderIsAsked(err error) {
	s.host.Log().Append(trace.Record{
		Task:    "scheduler/pods",
		Action:  trace.Action{Kind: trace.KindDriver, Verb: "ExtenderFilter", Object: localHost + "/default/web"},
		Outcome: trace.Outcome{Err: err},
	})
}

// cleared is a claim from which a full node was removed.
func (s *scene) cleared() {
	s.localStorage()
	s.claim("data", "40Mi", nodeSelected("node-1"))
	s.podOfData()
	s.record("24Mi", "64Mi", "pvc-other")
	s.selects(managerTask, "")
}

func TestLocalVolumeRules(t *testing.T) {
	playAll(t, []claimRow{
		{"I59", "on its node", func(s *scene) {
			s.localStorage()
			s.groupCall("node-1", "CreateLogicalVolume", "v")
			s.volume("v", "40Mi", onNode1)
		}, ""},
		{"I59", "on another node", func(s *scene) {
			s.localStorage()
			s.groupCall("node-2", "CreateLogicalVolume", "v")
			s.volume("v", "40Mi", onNode1)
		}, `PersistentVolume v is of node "node-1", which has no such logical volume`},
		{"I59", "removed too early", func(s *scene) {
			s.localStorage()
			s.groupCall("node-1", "CreateLogicalVolume", "v")
			s.volume("v", "40Mi", onNode1)
			s.groupCall("node-1", "RemoveLogicalVolume", "v")
		}, `PersistentVolume v is of node "node-1", which has no such logical volume`},
		{"I59", "left behind", func(s *scene) {
			s.localStorage()
			s.groupCall("node-1", "CreateLogicalVolume", "v")
		}, "node node-1 has a logical volume v, and no PersistentVolume is of it"},
		{"I59", "left behind, and removed", func(s *scene) {
			s.localStorage()
			s.groupCall("node-1", "CreateLogicalVolume", "v")
			s.groupCall("node-1", "RemoveLogicalVolume", "v")
		}, ""},
		{"I59", "left behind by a manager that is down", func(s *scene) {
			s.localStorage()
			s.groupCall("node-1", "CreateLogicalVolume", "v")
			s.inject("stop", "localstorage(node-1)")
		}, ""},
		{"I59", "retained", func(s *scene) {
			s.localStorage()
			s.groupCall("node-1", "CreateLogicalVolume", "v")
			s.volume("v", "40Mi", onNode1, func(v *corev1.PersistentVolume) {
				v.Spec.PersistentVolumeReclaimPolicy = corev1.PersistentVolumeReclaimRetain
			})
			s.removeVolume("v")
		}, ""},
		{"I60", "two volumes for which there is space", func(s *scene) {
			s.localStorage()
			s.volume("v", "40Mi", onNode1)
			s.volume("w", "40Mi", onNode1)
			s.record("40Mi", "120Mi", "v", "w")
		}, ""},
		{"I60", "two volumes, and space for one", func(s *scene) {
			s.localStorage()
			s.volume("v", "40Mi", onNode1)
			s.volume("w", "40Mi", onNode1)
			s.record("24Mi", "64Mi", "v")
		}, "record fast.node-1: PersistentVolumes of 83886080 bytes, of 67108864"},
		{"I60", "a volume that the record lacks", func(s *scene) {
			s.localStorage()
			s.volume("v", "40Mi", onNode1)
		}, "record fast.node-1: 67108864 bytes are free and 0 used, of 67108864, by PersistentVolumes of 41943040"},
		{"I60", "free space that is used", func(s *scene) {
			s.localStorage()
			s.record("64Mi", "64Mi", "v")
		}, "record fast.node-1: 67108864 bytes are free and 41943040 used, of 67108864, by PersistentVolumes of 0"},
		{"I60", "the manager is down", func(s *scene) {
			s.localStorage()
			s.volume("v", "40Mi", onNode1)
			s.inject("stop", "localstorage(node-1)")
		}, ""},
	})
}

func TestSelectedNodeRules(t *testing.T) {
	const again = "scheduler/binding selected node-1 again for claim default/data, which requests 41943040 bytes; " +
		"record fast.node-1 shows 25165824 free"
	playAll(t, []claimRow{
		{"I61", "a full node is removed", (*scene).cleared, ""},
		{"I61", "a node with space is removed", func(s *scene) {
			s.localStorage()
			s.claim("data", "40Mi", nodeSelected("node-1"))
			s.selects(managerTask, "")
		}, "localstorage(node-1)/work removed node-1 from claim default/data, which requests 41943040 bytes; " +
			"record fast.node-1 shows 67108864 free"},
		{"I61", "a user removes it", func(s *scene) {
			s.localStorage()
			s.claim("data", "40Mi", nodeSelected("node-1"))
			s.editClaim("data", nodeSelected(""))
		}, ""},
		{"I62", "asked before", func(s *scene) {
			s.cleared()
			s.extenderIsAsked(nil)
			s.extenderSees()
			s.selects("scheduler/binding", "node-1")
		}, ""},
		{"I62", "asked afterwards", func(s *scene) {
			s.cleared()
			s.extenderSees()
			s.extenderIsAsked(nil)
			s.selects("scheduler/binding", "node-1")
		}, again},
		{"I62", "no answer", func(s *scene) {
			s.cleared()
			s.extenderSees()
			s.extenderIsAsked(errors.New("refused"))
			s.selects("scheduler/binding", "node-1")
		}, ""},
		{"I62", "the extender crashed meanwhile", func(s *scene) {
			s.cleared()
			s.extenderSees()
			s.extenderIsAsked(nil)
			s.inject("crash", "localstorage")
			s.selects("scheduler/binding", "node-1")
		}, ""},
		{"I62", "there is space now", func(s *scene) {
			s.cleared()
			s.record("64Mi", "64Mi")
			s.extenderSees()
			s.extenderIsAsked(nil)
			s.selects("scheduler/binding", "node-1")
		}, ""},
		{"I62", "a user selects it", func(s *scene) {
			s.cleared()
			s.extenderSees()
			s.extenderIsAsked(nil)
			s.editClaim("data", nodeSelected("node-1"))
		}, ""},
	})
}

func TestLocalClaimRule(t *testing.T) {
	const space = "persistentvolumeclaims/default/data has no node, and needs 41943040 bytes; record fast.node-1 shows 67108864 free (L16)"
	waits := func(edits ...func(*corev1.Pod)) story {
		return func(s *scene) {
			s.localStorage()
			s.claim("data", "40Mi", nodeSelected(""))
			s.podOfData(edits...)
		}
	}
	then := func(first story, more ...story) story {
		return func(s *scene) {
			first(s)
			for _, each := range more {
				each(s)
			}
		}
	}
	down := func(name string) story { return func(s *scene) { s.inject("stop", name) } }
	playAll(t, []claimRow{
		{"L16", "there is space", waits(), space},
		{"L16", "the group is full", (*scene).cleared, ""},
		{"L16", "no pod uses it", func(s *scene) {
			s.localStorage()
			s.claim("data", "40Mi", nodeSelected(""))
		}, ""},
		{"L16", "the space is promised to another claim", then(waits(), func(s *scene) {
			s.claim("more", "40Mi", nodeSelected("node-1"))
		}, down("localstorage(node-1)")), ""},
		{"L16", "the pod wants another node", waits(func(p *corev1.Pod) { p.Spec.NodeSelector = map[string]string{"a": "b"} }), ""},
		{"L16", "the scheduler is down", then(waits(), down("scheduler")), ""},
		{"L16", "the scheduler is up again", then(waits(), down("scheduler"), func(s *scene) { s.inject("start", "scheduler") }), space},
		{"L16", "the extender is down", then(waits(), down("localstorage")), ""},
		{"L16", "the node takes no pods", then(waits(), func(s *scene) {
			s.server.UpdateStored("nodes", "", "node-1", func(stored fake.Object) fake.Object {
				n := stored.DeepCopyObject().(*corev1.Node)
				n.Spec.Unschedulable = true
				return n
			})
		}), ""},
		{"L16", "another extender was asked", then(waits(), func(s *scene) { s.call("scheduler/pods", "ExtenderFilter", "default/web", nil) }), ""},
		{"L16", "a node is selected", func(s *scene) {
			s.localStorage()
			s.claim("data", "40Mi", nodeSelected("node-1"))
		}, "persistentvolumeclaims/default/data is not bound although node node-1 is selected for it (L16)"},
		{"L16", "a node is selected, and its manager is down", func(s *scene) {
			s.localStorage()
			s.claim("data", "40Mi", nodeSelected("node-1"))
			s.inject("stop", "localstorage(node-1)")
		}, ""},
		{"L16", "a volume is made that is not bound", func(s *scene) {
			s.localStorage()
			claim := s.claim("data", "40Mi", nodeSelected("node-1"))
			s.volume("pvc-"+string(claim.UID), "40Mi", onNode1)
		}, ""},
	})
}
