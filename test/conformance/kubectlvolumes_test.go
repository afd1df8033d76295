package conformance_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/volsim/volsim/cluster"
	"github.com/volsim/volsim/plugins/hostpath"
	"github.com/volsim/volsim/plugins/nodefs"
)

// A kubectlVolume is a pod with one volume, mounted at /v.
type kubectlVolume struct {
	pod, volume string
	node        string            // "": any
	objects     string            // further manifests
	read        map[string]string // content of files that the pod finds; "*": any
	write       bool              // the pod may write
	device      bool              // the pod uses it as a device
	real        bool              // only on devices of this machine: needs a node of a special type
}

// claimOf is a PersistentVolume with a claim that it is for.
const claimOf = `
apiVersion: v1
kind: PersistentVolume
metadata: {name: %[1]s}
spec:
  storageClassName: manual
  capacity: {storage: 10Gi}
  accessModes: [%[2]s]
  claimRef: {namespace: default, name: %[1]s}
  %[3]s
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: %[1]s}
spec:
  storageClassName: manual
  accessModes: [%[2]s]
  resources: {requests: {storage: 3Gi}}
`

// dynamicClaim is a claim of the default class.
const dynamicClaim = `
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: csi}
spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 8Mi}}}
`

const fileObjects = `
apiVersion: v1
kind: ConfigMap
metadata: {name: files}
data: {color: blue}
---
apiVersion: v1
kind: Secret
metadata: {name: keys}
stringData: {key: s3cret}
`

const onNode1 = "nodeAffinity: {required: {nodeSelectorTerms: [{matchExpressions: [{key: kubernetes.io/hostname, operator: In, values: [node-1]}]}]}}"

// kubectlVolumes are the volumes that people write.
var kubectlVolumes = []kubectlVolume{
	{pod: "empty-dir", volume: "emptyDir: {}", write: true},
	{pod: "empty-dir-memory", volume: "emptyDir: {medium: Memory, sizeLimit: 1Mi}", write: true},
	{pod: "host-path", volume: "hostPath: {path: /srv/any}", write: true},
	{pod: "host-directory", volume: "hostPath: {path: /srv/directory, type: Directory}", read: map[string]string{"file": "of the node"}, write: true},
	{pod: "host-directory-or-create", volume: "hostPath: {path: /srv/created/here, type: DirectoryOrCreate}", write: true},
	{pod: "host-file", volume: "hostPath: {path: /srv/directory/file, type: File}", read: map[string]string{"": "of the node"}},
	{pod: "host-file-or-create", volume: "hostPath: {path: /srv/directory/new, type: FileOrCreate}", read: map[string]string{"": ""}},
	{pod: "host-socket", volume: "hostPath: {path: /srv/socket, type: Socket}", real: true},
	{pod: "host-char-device", volume: "hostPath: {path: /srv/null, type: CharDevice}", real: true},
	{pod: "host-block-device", volume: "hostPath: {path: /srv/disk, type: BlockDevice}", real: true},
	{pod: "config-map", volume: "configMap: {name: files, items: [{key: color, path: paint/color}]}", objects: fileObjects, read: map[string]string{"paint/color": "blue"}},
	{pod: "secret", volume: "secret: {secretName: keys}", read: map[string]string{"key": "s3cret"}},
	{pod: "downward-api", volume: "downwardAPI: {items: [{path: name, fieldRef: {fieldPath: metadata.name}}]}", read: map[string]string{"name": "downward-api"}},
	{
		pod: "projected", read: map[string]string{"color": "blue", "key": "s3cret", "token": "*"},
		volume: "projected: {sources: [{configMap: {name: files}}, {secret: {name: keys}}, {serviceAccountToken: {path: token}}]}",
	},
	{
		pod: "local", volume: "persistentVolumeClaim: {claimName: local}", read: map[string]string{"file": "of the disk"}, write: true,
		objects: fmt.Sprintf(claimOf, "local", "ReadWriteOnce", "local: {path: /mnt/disk}\n  "+onNode1),
	},
	{
		pod: "local-ram-disk", volume: "persistentVolumeClaim: {claimName: ram-disk}", write: true,
		objects: fmt.Sprintf(claimOf, "ram-disk", "ReadWriteOnce", "local: {path: /mnt/ram}\n  "+onNode1),
	},
	{
		pod: "local-disk", volume: "persistentVolumeClaim: {claimName: disk}", write: true,
		objects: fmt.Sprintf(claimOf, "disk", "ReadWriteOnce", "local: {path: /dev/vdb, fsType: ext4}\n  "+onNode1),
	},
	{
		pod: "local-raw-disk", volume: "persistentVolumeClaim: {claimName: raw-disk}", device: true,
		objects: strings.ReplaceAll(fmt.Sprintf(claimOf, "raw-disk", "ReadWriteOnce", "local: {path: /dev/vdc}\n  "+onNode1),
			"storageClassName: manual", "storageClassName: manual\n  volumeMode: Block"),
	},
	{pod: "nfs", volume: "nfs: {server: files, path: /shared, readOnly: true}", read: map[string]string{"motd": "hello"}},
	{
		pod: "nfs-1", node: "node-1", volume: "persistentVolumeClaim: {claimName: shared}", read: map[string]string{"motd": "hello"}, write: true,
		objects: fmt.Sprintf(claimOf, "shared", "ReadWriteMany", "nfs: {server: files, path: /shared}"),
	},
	{pod: "nfs-2", node: "node-2", volume: "persistentVolumeClaim: {claimName: shared}", read: map[string]string{"motd": "hello", "nfs-1": "written"}},
	{
		pod: "ephemeral", write: true,
		volume: "ephemeral: {volumeClaimTemplate: {spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 8Mi}}}}}",
	},
	{pod: "flex-volume", volume: "flexVolume: {driver: example.com/directory}", write: true},
	{pod: "csi", volume: "persistentVolumeClaim: {claimName: csi}", objects: dynamicClaim, write: true},
	{
		pod: "task-pv-pod", volume: "persistentVolumeClaim: {claimName: task-pv-claim}", read: map[string]string{"index.html": "Hello from Kubernetes storage"},
		objects: fmt.Sprintf(claimOf, "task-pv-claim", "ReadWriteOnce", "hostPath: {path: /mnt/data}"),
	},
}

// manifest returns the pod and its objects.
func (v kubectlVolume) manifest() string {
	selector := ""
	if v.node != "" {
		selector = "\n  nodeSelector: {kubernetes.io/hostname: " + v.node + "}"
	}
	use := "volumeMounts: [{name: v, mountPath: /v}]"
	if v.device {
		use = "volumeDevices: [{name: v, devicePath: /dev/v}]"
	}
	return v.objects + fmt.Sprintf(`
---
apiVersion: v1
kind: Pod
metadata: {name: %s}
spec:%s
  volumes: [{name: v, %s}]
  containers: [{name: main, image: nginx, %s}]
---
`, v.pod, selector, v.volume, use)
}

// prepareNode creates what the volumes find on a node.
func prepareNode(m hostpath.Machine) error {
	for path, content := range map[string]string{
		"/srv/directory/file": "of the node", "/mnt/disk/file": "of the disk", "/mnt/data/index.html": "Hello from Kubernetes storage",
	} {
		if err := m.FS.MkdirAll(m.Path(filepath.Dir(path))); err != nil {
			return err
		}
		if err := m.FS.WriteFile(m.Path(path), []byte(content)); err != nil {
			return err
		}
	}
	if _, real := m.FS.(*nodefs.Real); !real {
		return nil
	}
	for path, node := range map[string]struct {
		mode   uint32
		device uint64
	}{
		"/srv/socket": {mode: unix.S_IFSOCK}, "/srv/null": {unix.S_IFCHR, unix.Mkdev(1, 3)}, "/srv/disk": {unix.S_IFBLK, unix.Mkdev(7, 0)},
	} {
		if err := unix.Mknod(m.Path(path), node.mode|0o600, int(node.device)); err != nil {
			return fmt.Errorf("mknod %s: %w", path, err)
		}
	}
	return nil
}

// A volumesWorld is a cluster whose pods' files a test can reach.
type volumesWorld interface {
	config() string // path of a kubeconfig
	machine(node string) hostpath.Machine
	exports() hostpath.Machine
	addDisk(node string, disk cluster.Disk) error
	installFlexDriver(node string) error
	// mountPath returns where a pod has its volume, and the disk of its node.
	mountPath(v kubectlVolume) (nodefs.FS, string, error)
	checkDevice(v kubectlVolume) error
	close() error // fails if anything of the volumes is left
}

// testKubectlVolumes applies all volumes by kubectl, reads and writes their files where the pods have
// them, and deletes everything.
func testKubectlVolumes(t *testing.T, kubectl string, devices cluster.Devices, w volumesWorld) {
	closed := false
	defer func() {
		if !closed {
			w.close() // the test has failed
		}
	}()
	var manifest strings.Builder
	var volumes []kubectlVolume
	for _, v := range kubectlVolumes {
		if !v.real || devices != cluster.Array {
			volumes = append(volumes, v)
			manifest.WriteString(v.manifest())
		}
	}
	k := kubectlOf{t, kubectl, w.config()}
	run := func(args ...string) {
		t.Helper()
		k.run(manifest.String(), args...)
	}
	for _, node := range []string{"node-1", "node-2"} {
		if err := errors.Join(prepareNode(w.machine(node)), w.installFlexDriver(node)); err != nil {
			t.Fatal(err)
		}
	}
	for _, disk := range []cluster.Disk{
		{Path: "/mnt/ram", SizeBytes: 1 << 20},
		{Path: "/dev/vdb", SizeBytes: 32 << 20, Block: true},
		{Path: "/dev/vdc", SizeBytes: 1 << 20, Block: true},
	} {
		if err := w.addDisk("node-1", disk); err != nil {
			t.Fatal(err)
		}
	}
	exports := w.exports()
	if err := exports.FS.MkdirAll(exports.Path("/files/shared")); err != nil {
		t.Fatal(err)
	}
	if err := exports.FS.WriteFile(exports.Path("/files/shared/motd"), []byte("hello")); err != nil {
		t.Fatal(err)
	}

	run("apply", "-f", "-")
	run("wait", "--for=condition=Ready", "pod", "--all", "--timeout=60s")
	for _, v := range volumes {
		if !v.write {
			continue
		}
		fs, path, err := w.mountPath(v)
		if err == nil {
			err = fs.WriteFile(filepath.Join(path, v.pod), []byte("written"))
		}
		if err != nil {
			t.Errorf("%s: %v", v.pod, err)
		}
	}
	for _, v := range volumes {
		if v.device {
			if err := w.checkDevice(v); err != nil {
				t.Errorf("%s: %v", v.pod, err)
			}
			continue
		}
		fs, path, err := w.mountPath(v)
		if err != nil {
			t.Errorf("%s: %v", v.pod, err)
			continue
		}
		files := maps.Clone(v.read)
		if v.write {
			files = map[string]string{v.pod: "written"}
			maps.Copy(files, v.read)
		}
		for name, want := range files {
			got, err := fs.ReadFile(filepath.Join(path, name))
			if err != nil || string(got) != want && (want != "*" || len(got) == 0) {
				t.Errorf("%s: file %q: %q, %v, want %q", v.pod, name, got, err, want)
			}
		}
	}
	testKubectlSnapshot(k, w)
	run("delete", "-f", "-", "--timeout=60s")
	run("wait", "--for=delete", "persistentvolumeclaim/ephemeral-v", "--timeout=60s")
	run("wait", "--for=delete", "persistentvolume,volumeattachment", "--all", "--timeout=60s")
	closed = true
	if err := w.close(); err != nil {
		t.Error(err)
	}
}

// kubectlOf is kubectl with the kubeconfig of a cluster.
type kubectlOf struct {
	*testing.T

	program, config string
}

// run runs kubectl with an input, and returns its output. A failure ends the test.
func (k kubectlOf) run(input string, args ...string) string {
	k.Helper()
	command := exec.Command(k.program, append([]string{"--kubeconfig", k.config}, args...)...)
	command.Env = append(os.Environ(), "HOME="+filepath.Dir(k.config))
	command.Stdin = strings.NewReader(input)
	out, err := command.CombinedOutput()
	if err != nil {
		k.Fatalf("kubectl %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return string(out)
}

// volumesInProcess is a cluster on the array, in this process.
type volumesInProcess struct {
	*served

	kubeconfig string
}

func serveVolumes(t *testing.T) volumesWorld {
	w, err := serveCluster(cluster.Config{Devices: cluster.Array, Snapshots: true})
	if err != nil {
		t.Fatal(err)
	}
	config := filepath.Join(t.TempDir(), "config")
	if err := clientcmd.WriteToFile(*w.listener.Kubeconfig("volsim"), config); err != nil {
		t.Fatal(errors.Join(err, w.close()))
	}
	return volumesInProcess{w, config}
}

func (w volumesInProcess) config() string            { return w.kubeconfig }
func (w volumesInProcess) exports() hostpath.Machine { return w.cluster.NFSExports() }

func (w volumesInProcess) machine(node string) hostpath.Machine {
	m, err := w.cluster.Machine(node)
	if err != nil {
		panic(err)
	}
	return m
}

func (w volumesInProcess) addDisk(node string, disk cluster.Disk) error {
	return w.cluster.AddDisk(node, disk)
}

// installFlexDriver installs the FlexVolume driver example.com/directory.
func (w volumesInProcess) installFlexDriver(node string) error {
	disk, volume := w.machine(node).FS.(*nodefs.Memory), nodefs.NewTree()
	return w.cluster.InstallFlexDriver(node, "example.com/directory", func(_ context.Context, args ...string) ([]byte, error) {
		var err error
		switch args[0] {
		case "init":
			return []byte(`{"status": "Success", "capabilities": {"attach": false}}`), nil
		case "mount":
			err = errors.Join(disk.MkdirAll(args[1]), disk.MountTree(volume, "directory", args[1], false))
		case "unmount":
			err = disk.Unmount(args[1])
		default:
			return []byte(`{"status": "Not supported"}`), errors.New("exit status 1")
		}
		return []byte(`{"status": "Success"}`), err
	})
}

func (w volumesInProcess) mountPath(v kubectlVolume) (nodefs.FS, string, error) {
	pod, err := w.admin().CoreV1().Pods("default").Get(context.Background(), v.pod, metav1.GetOptions{})
	if err != nil {
		return nil, "", err
	}
	path, err := w.cluster.MountPath("default", v.pod, "v")
	return w.machine(pod.Spec.NodeName).FS, path, err
}

func (w volumesInProcess) checkDevice(v kubectlVolume) error {
	_, err := w.cluster.DevicePath("default", v.pod, "v")
	return err
}

func (w volumesInProcess) close() error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	err := w.cluster.WaitForRest(ctx)
	leaks, leaksErr := w.cluster.Leaks()
	if len(leaks) > 0 {
		err = errors.Join(err, fmt.Errorf("left: %v", leaks))
	}
	for _, node := range []string{"node-1", "node-2"} {
		m := w.machine(node)
		if pods, podsErr := m.FS.ReadDir(m.Path("/var/lib/kubelet/pods")); podsErr != nil || len(pods) > 0 {
			err = errors.Join(err, fmt.Errorf("directories of pods left on %s: %v, %w", node, pods, podsErr))
		}
	}
	return errors.Join(err, leaksErr, w.served.close())
}
