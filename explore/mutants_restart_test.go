package explore_test

import (
	"context"
	"errors"
	"path"
	"slices"

	csispec "github.com/container-storage-interface/spec/lib/go/csi"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/volsim/volsim/cluster"
	"github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/internal/known"
	"github.com/volsim/volsim/plugins/nodefs"
)

// restartMutants are defects of reconstruction after a kubelet's restart, and of reboots.
var restartMutants = []mutant{
	{
		name: "a restarted kubelet does not reconstruct staged volumes", rule: "I26", history: "#60987, #31596, #38498",
		scenario: nodeComponents + "rules: I26\n" + once("kubelet(node-1)", "crash") +
			runs, between: disk(hides("csi")),
		config: restarts, within: 60,
	},
	{
		name: "a restarted kubelet forgets the volumes that it reconstructed", rule: "I36",
		history:  "#96635, #70044, PR #110670",
		scenario: nodeComponents + once("kubelet(node-1)", "crash") + runs, between: disk(hides("csi", "pods")),
		config: restarts, within: 60,
	},
	{
		name: "a restarted kubelet reconstructs staged volumes, but not published ones",
		rule: "I17", history: "PR #102576",
		scenario: nodeComponents + "rules: I17\n" + once("kubelet(node-1)", "crash") +
			runs, between: disk(hides("pods")),
		config: restarts, within: 60,
	},
	knownMutant("a restarted kubelet unmounts before it has listed its pods", "kubernetes-120150"),
	{
		name: "a restarted kubelet uses a stale list of pods", rule: "I27",
		scenario: nodeComponents + once("kubelet(node-1)", "crash") +
			staysThere, between: client("kubelet", findsNoPods), config: restarts, within: 200,
	},
	{
		name: "a rebooted node runs its pods without their volumes", rule: "I27", history: "#120853, #117513",
		scenario: nodeComponents + boots, between: known.WithMemory(publishesOnce), config: holds, within: 1,
	},
	{
		name: "a directory is removed with everything mounted below it", rule: "I25", history: "#27651, #72257",
		scenario: nodeComponents + once("NodePublishVolume", "driver-lost Internal") +
			writesTwice, between: disk(empties),
		config: faults, within: 5,
	},
	{
		name: "the directory of a pod stays", rule: "L6", history: "#60987, PR #37698",
		scenario: nodeComponents + runs, between: disk(keepsPodDirs), config: holds, within: 1,
	},
}

// writesTwice is a pod that writes, followed by another one.
const writesTwice = `
user alice
  create claim data 1Gi
  create pod web data on=node-1
  wait pod web Running
  write pod web data
  create pod next data on=node-1
  wait pod next Running
`

// boots is a pod that runs, and runs again after a reboot of its node.
const boots = staysThere + `
  wait pod web Running
  let reboot node-1
`

// brokenDisk is a node's disk with two calls replaced by functions.
type brokenDisk struct {
	nodefs.FS
	readDir func(name string) ([]string, error)
	remove  func(name string) error
}

func (d brokenDisk) ReadDir(name string) ([]string, error) { return d.readDir(name) }
func (d brokenDisk) Remove(name string) error              { return d.remove(name) }

// disk intercepts the disks of kubelets. mutate changes the correct one.
func disk(mutate func(d *brokenDisk)) func() cluster.Interceptors {
	return func() cluster.Interceptors {
		return cluster.Interceptors{FS: func(_ string, own nodefs.FS) nodefs.FS {
			d := brokenDisk{own, own.ReadDir, own.Remove}
			mutate(&d)
			return d
		}}
	}
}

// hides shows the directories that reconstruction reads as empty.
func hides(dirs ...string) func(d *brokenDisk) {
	return func(d *brokenDisk) {
		looked := map[string]bool{}
		d.readDir = func(name string) ([]string, error) {
			names, err := d.FS.ReadDir(name)
			if slices.Contains(dirs, path.Base(name)) && !looked[name] {
				names = nil
			}
			looked[name] = true
			return names, err
		}
	}
}

// empties removes the content of a mount if the path cannot be removed because of the mount.
func empties(d *brokenDisk) {
	d.remove = func(name string) error {
		err := d.FS.Remove(name)
		if !errors.Is(err, nodefs.ErrMounted) {
			return err
		}
		names, _ := d.FS.ReadDir(name)
		for _, n := range names {
			err = errors.Join(err, d.FS.RemoveAll(path.Join(name, n)))
		}
		return err
	}
}

// keepsPodDirs reports the removal of a pod's directory without removing it.
func keepsPodDirs(d *brokenDisk) {
	d.remove = func(name string) error {
		if path.Base(path.Dir(name)) == "pods" {
			return nil
		}
		return d.FS.Remove(name)
	}
}

// publishesOnce treats the volumes that the previous kubelet published as published.
func publishesOnce(before known.Publications) invoking {
	return func(ctx context.Context, method string, args, reply any, invoke invoke) error {
		if r, is := args.(*csispec.NodePublishVolumeRequest); is && before[r.TargetPath] != nil {
			return nil
		}
		return invoke(ctx, method, args, reply)
	}
}

// findsNoPods answers a list of a node's pods with none.
func findsNoPods(*fake.Clientset) fake.InterceptorFunc {
	return func(r fake.Request, serve func() (runtime.Object, error)) (runtime.Object, error) {
		if asks(r, "list", "pods") {
			return &corev1.PodList{}, nil
		}
		return serve()
	}
}
