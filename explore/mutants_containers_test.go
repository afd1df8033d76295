package explore_test

import (
	"context"
	"path"
	"strings"

	csispec "github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/volsim/volsim/cluster"
	"github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/internal/known"
	"github.com/volsim/volsim/plugins/nodefs"
)

const containerComponents = "components: pvcontroller, provisioner, attachdetach, attacher, kubelet\ncontainers: shell\n"

// commandPod is an act that creates a pod with a command and a claim.
func commandPod(name, claim, node, command string) string {
	return `  apply
    apiVersion: v1
    kind: Pod
    metadata: {name: ` + name + `}
    spec:
      nodeName: ` + node + `
      restartPolicy: Never
      containers:
      - {name: main, image: busybox, command: [sh, -c, "` + command + `"], volumeMounts: [{name: data, mountPath: /data}]}
      volumes: [{name: data, persistentVolumeClaim: {claimName: ` + claim + `}}]
`
}

// writesAndMoves is a pod that writes and ends, followed by one on the other node that reads.
var writesAndMoves = containerComponents + `user alice
  create claim data 1Gi
` + commandPod("web", "data", "node-1", "echo 1 > /data/f") + `  wait pod web Succeeded
  delete pod web
  wait pod web gone
` + commandPod("next", "data", "node-2", "cat /data/f") + "  wait pod next Succeeded\n"

// writesAndStays is the same on one node, where the second pod only lists the directory.
var writesAndStays = strings.NewReplacer("node-2", "node-1", "cat /data/f", "ls /data").Replace(writesAndMoves)

// writesAndRestores is a pod that writes and ends, a snapshot of its claim and a pod with the restored one.
var writesAndRestores = `components: pvcontroller, provisioner, attachdetach, attacher, kubelet, snapshotcontroller, snapshotter
containers: shell
snapshots: on
user alice
  create claim data 1Gi
` + commandPod("web", "data", "node-1", "echo 1 > /data/f; sync") + `  wait pod web Succeeded
  create snapshot before data
  wait snapshot before ReadyToUse
  create claim restored 1Gi snapshot=before
` + commandPod("next", "restored", "node-2", "ls /data") + "  wait pod next Succeeded\n"

// writesAndClones is the same with a clone of the claim.
var writesAndClones = containerComponents + `user alice
  create claim data 1Gi
` + commandPod("web", "data", "node-1", "echo 1 > /data/f; sync") + `  wait pod web Succeeded
  apply
    apiVersion: v1
    kind: PersistentVolumeClaim
    metadata: {name: clone}
    spec:
      accessModes: [ReadWriteOnce]
      resources: {requests: {storage: 1Gi}}
      dataSource: {kind: PersistentVolumeClaim, name: data}
` + commandPod("next", "clone", "node-2", "ls /data") + "  wait pod next Succeeded\n"

// containerMutants are defects that containers see in their volumes.
var containerMutants = []mutant{
	{
		name: "a driver formats a volume at each stage", rule: "I68",
		scenario: "rules: I68\n" + writesAndMoves, between: onDisk(formatsAgain), config: holds, within: 1,
	},
	{
		name: "a driver loses the last write when it unpublishes", rule: "I68",
		scenario: "rules: I68\n" + writesAndStays, between: onDisk(losesAtUnpublish), config: holds, within: 1,
	},
	{
		name: "a driver returns to an earlier content when it unpublishes", rule: "I68",
		scenario: strings.Replace(writesAndStays, "echo 1", "echo 0 > /data/f; echo 1", 1),
		between:  onDisk(truncatesAtUnpublish), config: holds, within: 1,
	},
	{
		name: "a restored volume is empty", rule: "I69",
		scenario: "rules: I69\n" + writesAndRestores, between: driver("provisioner", makesEmptyVolumes), config: holds, within: 1,
	},
	{
		name: "a clone is empty", rule: "I69",
		scenario: "rules: I69\n" + writesAndClones, between: driver("provisioner", makesEmptyVolumes), config: holds, within: 1,
	},
	{
		name: "a container starts before its volume is mounted", rule: "I70",
		scenario: "rules: I70\n" + writesAndMoves, between: onDisk(mountsLater), config: holds, within: 1,
	},
	{
		name: "a volume is unmounted below its container", rule: "I70",
		scenario: "rules: I70\n" + containerComponents + `user alice
  create claim data 1Gi
` + commandPod("web", "data", "node-1", "while :; do echo 1 >> /data/f; sleep 1; done") + `  wait pod web Running
  delete pod web
  wait pod web gone
`, between: unmountsWhileRunning, config: holds, within: 1,
	},
}

// onDisk intercepts the calls of kubelets to the driver's node service. The mutant also has the disk of the node.
func onDisk(mutate func(disk nodefs.FS) invoking) func() cluster.Interceptors {
	return func() cluster.Interceptors {
		disks := map[string]nodefs.FS{}
		return cluster.Interceptors{
			FS: func(process string, own nodefs.FS) nodefs.FS {
				disks[process] = own
				return own
			},
			Driver: func(process string, conn grpc.ClientConnInterface) grpc.ClientConnInterface {
				if !belongsTo("kubelet", process) {
					return conn
				}
				return known.Conn(conn, func(ctx context.Context, method string, args, reply any, invoke invoke) error {
					return mutate(disks[process])(ctx, method, args, reply, invoke)
				})
			},
		}
	}
}

// empty removes what is in a directory.
func empty(disk nodefs.FS, dir string) {
	names, _ := disk.ReadDir(dir)
	for _, name := range names {
		_ = disk.RemoveAll(path.Join(dir, name))
	}
}

func formatsAgain(disk nodefs.FS) invoking {
	return func(ctx context.Context, method string, args, reply any, invoke invoke) error {
		err := invoke(ctx, method, args, reply)
		if r, is := args.(*csispec.NodeStageVolumeRequest); is && err == nil {
			empty(disk, r.GetStagingTargetPath())
		}
		return err
	}
}

func losesAtUnpublish(disk nodefs.FS) invoking {
	return func(ctx context.Context, method string, args, reply any, invoke invoke) error {
		if r, is := args.(*csispec.NodeUnpublishVolumeRequest); is {
			empty(disk, r.GetTargetPath())
		}
		return invoke(ctx, method, args, reply)
	}
}

func truncatesAtUnpublish(disk nodefs.FS) invoking {
	return func(ctx context.Context, method string, args, reply any, invoke invoke) error {
		if r, is := args.(*csispec.NodeUnpublishVolumeRequest); is {
			_ = disk.WriteFile(path.Join(r.GetTargetPath(), "f"), []byte("0\n"))
		}
		return invoke(ctx, method, args, reply)
	}
}

// mountsLater makes the directory, and reports that the volume is published there.
func mountsLater(disk nodefs.FS) invoking {
	return func(ctx context.Context, method string, args, reply any, invoke invoke) error {
		if r, is := args.(*csispec.NodePublishVolumeRequest); is {
			return disk.MkdirAll(r.GetTargetPath())
		}
		return invoke(ctx, method, args, reply)
	}
}

// unmountsWhileRunning unmounts the volumes of a kubelet after it has reported a pod's status.
func unmountsWhileRunning() cluster.Interceptors {
	published := map[string]string{} // path by node's kubelet
	disks := map[string]nodefs.FS{}
	hooks := onDisk(func(nodefs.FS) invoking {
		return func(ctx context.Context, method string, args, reply any, invoke invoke) error {
			if r, is := args.(*csispec.NodePublishVolumeRequest); is {
				published["kubelet(node-1)"] = r.GetTargetPath()
			}
			return invoke(ctx, method, args, reply)
		}
	})()
	remember := hooks.FS
	hooks.FS = func(process string, own nodefs.FS) nodefs.FS {
		disks[process] = own
		return remember(process, own)
	}
	hooks.Client = client("kubelet", func(*fake.Clientset) fake.InterceptorFunc {
		return func(r fake.Request, serve func() (runtime.Object, error)) (runtime.Object, error) {
			obj, err := serve()
			if dir := published["kubelet(node-1)"]; asks(r, "patch", "pods/status") && dir != "" && strings.Contains(string(r.Patch), "Running") {
				_ = disks["kubelet(node-1)"].Unmount(dir)
			}
			return obj, err
		}
	})().Client
	return hooks
}
