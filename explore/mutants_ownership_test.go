package explore_test

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/volsim/volsim/cluster"
	"github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/plugins/nodefs"
)

// ownershipMutants are defects of the ownership of volumes' files.
var ownershipMutants = []mutant{
	{
		name: "files get a group that no pod requests", rule: "I39",
		scenario: ownerParts + grouped, between: givesFurther, config: holds, within: 1,
	},
	{
		name: "files of a ReadWriteMany volume get the group of one pod", rule: "I39",
		scenario: ownerParts + shared, between: client("kubelet", takesForOnes), config: holds, within: 1,
	},
}

const ownerParts = "nodes: 1\nrules: I39\n" + placeComponents

// grouped is a pod with an fsGroup, whose volume has a file of an earlier pod.
const grouped = `
user alice
  create claim data 1Gi
  create pod first data
  wait pod first Running
  write pod first data
  create pod web data group=1000
  wait pod web Running
  delete pod web
  wait pod web gone
`

// shared is a pod with an fsGroup and a ReadWriteMany volume.
const shared = `
user alice
  create claim data 1Gi modes=ReadWriteMany
  create pod web data group=1000
  wait pod web Running
  delete pod web
  wait pod web gone
`

// takesForOnes lets a kubelet treat ReadWriteMany volumes as ReadWriteOnce.
func takesForOnes(*fake.Clientset) fake.InterceptorFunc {
	return func(r fake.Request, serve func() (runtime.Object, error)) (runtime.Object, error) {
		object, err := serve()
		if v, is := object.(*corev1.PersistentVolume); is && err == nil && r.Verb == "get" {
			v = v.DeepCopy()
			v.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}
			return v, nil
		}
		return object, err
	}
}

// brokenOwners is a node's disk that sets wrong owners.
type brokenOwners struct {
	nodefs.FS
	shift int // offset added to each group that is set
}

func (d brokenOwners) Chown(name string, uid, gid int) error {
	if gid >= 0 {
		gid += d.shift
	}
	return d.FS.Chown(name, uid, gid)
}

// givesFurther breaks the disks of kubelets.
func givesFurther() cluster.Interceptors {
	return cluster.Interceptors{FS: func(_ string, own nodefs.FS) nodefs.FS { return brokenOwners{FS: own, shift: 1} }}
}
