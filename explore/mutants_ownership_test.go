package explore_test

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/volsim/volsim/cluster"
	"github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/plugins/nodefs"
)

// ownershipMutants are about whose the files of volumes are.
var ownershipMutants = []mutant{
	{
		name: "files are given to a group that nobody named", rule: "I39",
		scenario: ownerParts + grouped, between: givesFurther, config: holds, within: 1,
	},
	{
		name: "the files of a volume that many write are given to one's group", rule: "I39",
		scenario: ownerParts + shared, between: client("kubelet", takesForOnes), config: holds, within: 1,
	},
}

const ownerParts = "nodes: 1\nrules: I39\n" + placeParts

// grouped is a pod of a group whose volume has a file from an earlier one.
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

// shared is a pod of a group whose volume is for many.
const shared = `
user alice
  create claim data 1Gi modes=ReadWriteMany
  create pod web data group=1000
  wait pod web Running
  delete pod web
  wait pod web gone
`

// takesForOnes lets a kubelet take volumes that are for many for such as are for one node.
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

// brokenOwners is a node's disk that is wrong about whose things are.
type brokenOwners struct {
	nodefs.FS
	shift int // what is given to a group is given to one so much further
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
