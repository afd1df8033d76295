package scenario

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	storagehelpers "k8s.io/component-helpers/storage/volume"

	"github.com/volsim/volsim/cluster"
	"github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/internal/apirequest"
	"github.com/volsim/volsim/internal/snapshotapi"
	"github.com/volsim/volsim/kubelet"
	"github.com/volsim/volsim/sim"
)

// An Act is one action of a user. Objects are in namespace default, unless NAME is NAMESPACE/NAME or
// a manifest says so. Parts in [] are optional; options come in any order:
//
//	create volume NAME SIZE [class=C] [reclaim=Delete] [for=CLAIM] [modes=ReadWriteMany] [handle=H]
//	              [path=P] [by=PROVISIONER] [node=NODE] [mode=Block]
//	create claim NAME SIZE [class=C] [volume=V] [modes=ReadWriteMany] [mode=Block]
//	             [snapshot=SNAPSHOT | clone=CLAIM] [app=APP]
//	create snapshot NAME CLAIM [class=C]          (of a claim)
//	create groupsnapshot NAME APP [class=C]       (of all claims with app=APP, at one moment)
//	create class NAME [provisioner=P] [binding=WaitForFirstConsumer] [reclaim=Retain] [default=true]
//	create pod NAME [CLAIM …] [on=NODE] [devices=CLAIM,…] [group=NUMBER] [change=OnRootMismatch]
//	           [level=LEVEL] [reads=true] [sub=PATH]
//	apply MANIFEST                                (one or more objects of any kind, in YAML or JSON)
//	apply FILE                                    (.yaml, .yml or .json; relative to the scenario's file)
//	patch RESOURCE NAME PATH=VALUE …
//	delete RESOURCE NAME
//	delete pod NAME [now=true]
//	set volume NAME [reclaim=Delete|Retain|Recycle] [for=CLAIM | bind=CLAIM] [migrated=DRIVER]
//	set claim NAME reclaim=Delete|Retain|Recycle  (of the volume to which it is bound)
//	set claim NAME size=SIZE                      (the size that it requests)
//	set node NODE ready=True|Unknown              (as the node lifecycle controller does)
//	set node NODE out-of-service=true|false       (a taint: an administrator confirms that the node is shut down)
//	set pod NAME [ready=true|false] [exits=CODES] (whether its containers are ready; the exit code of each run)
//	finish pod NAME
//	write pod NAME CLAIM [size=SIZE]              (a file into the claim's volume; waits until the pod has mounted it)
//	read pod NAME CLAIM WRITER                    (fails unless the volume has the file that pod WRITER wrote; waits, too)
//	cordon NODE
//	uncordon NODE
//	wait RESOURCE NAME PHASE                      (of its status; or one of several: PHASE|PHASE)
//	wait RESOURCE NAME PATH=VALUE …               (or one of several: PATH=VALUE|VALUE)
//	wait RESOURCE NAME condition=TYPE …           (is True; condition=TYPE=False is False)
//	wait RESOURCE NAME exists|gone
//	wait claim NAME SIZE                          (until its status has this capacity)
//	wait snapshot|groupsnapshot NAME ReadyToUse
//	disk NODE PATH SIZE [block=true]              (gives the node a RAM disk, or a block device)
//	lose NODE PATH                                (a disk of the node, which a reboot of the node finds again)
//	limit NUMBER                                  (attachable volumes per node from now on)
//	pass DURATION                                 (does nothing for this long)
//	let crash COMPONENT …                         (or any other event of the world)
//	request METHOD PATH [as=CLIENT] [type=TYPE] [BODY]
//
// A volume belongs to the world's own driver and is retained. With path= it is a directory of the
// plugin kubernetes.io/host-path. by= is the provisioner that it names. node= is the only node on
// which it can be used. A pod uses the claims after devices= as devices and mounts the others.
// group= is its fsGroup, change= its fsGroupChangePolicy, level= the SELinux level of its processes
// (such as s0:c1). reads=true makes its volumes read-only. sub= is the subPath of the claims that
// it mounts, or, if it contains $(POD) for the pod's name, the subPathExpr. A class belongs to the
// world's own driver, too. An empty class= means no class. By default a volume has no class and a
// claim the default class. An empty for= or migrated= removes the volume's claimRef or its
// annotation. bind= sets a claimRef with the claim's UID. ready= and exits= are annotations that the
// kubelet obeys; an empty one is removed. exits=1,0 lets the first run of each container exit with 1 and
// the second with 0, and exits=seed=1 the first one of the init container seed with 1
// (kubelet.ExitCodesAnnotation). The volume of a claim with snapshot= or clone= begins with the content of a
// snapshot, or of the volume of a claim. app= is a label of a claim. A write with size= fills that much of the volume with zeros. A create waits while an object of the
// same name is being deleted. A delete, set or patch of an object that does not exist does nothing.
//
// RESOURCE is a resource that the server serves, also a custom one, as in kubectl: widgets, widget,
// a short name, widgets.example.com. The words volume, claim, class and pod always mean those of the
// acts above, and so do snapshot and groupsnapshot in a world that has them.
//
// An apply creates objects, and patches those that exist, as kubectl apply does. In a scenario the
// manifest is in the same line, or in the lines below it, which are indented further. String
// returns it as JSON in one line. An object with generateName is created each time. A file is read
// once; Do reads a relative path from the working directory.
//
// A patch is a JSON merge patch. PATH is that of a field, such as spec.size or
// metadata.labels.example\.com/owner, with a backslash before a dot in a name. VALUE is JSON if it
// can be read as such (3, true, null, {"a": 1}, [80, 443], "3"), else a string (2Gi). null removes a
// field. Fields of the status are patched by way of /status, if the resource has it.
//
// A wait for PATH=VALUE compares the text of a field, whose path may have an index:
// status.nodes[0]=node-1.
//
// A request is any API request that writes, by its path and query. The body is JSON in one line, or
// a quoted string with Go's escapes. type= is its media type, or merge, strategic, json or apply
// for a patch. as= is the client's name, which is the default manager of its fields. A request that
// the server rejects, because an object has changed or does not exist, is no error. Watches, exec
// and other streams are not possible.
type Act struct {
	verb, kind, name string
	args             []string // SIZE, PHASE, claims
	options          []option // in the order of the text
	request          apirequest.Request
	file             *manifestFile // of an apply; nil: the manifest is in args
}

type option struct{ key, value string }

// String returns the act as text.
func (a Act) String() string {
	switch {
	case a.verb == "request":
		return a.verb + " " + a.request.String()
	case a.file != nil:
		return a.verb + " " + a.file.path
	}
	words := []string{a.verb}
	if a.kind != "" {
		words = append(words, a.kind)
	}
	if a.name != "" {
		words = append(words, a.name)
	}
	words = append(words, a.args...)
	for _, o := range a.options {
		words = append(words, o.key+"="+o.value)
	}
	return strings.Join(words, " ")
}

func (a Act) option(key string) (string, bool) {
	i := slices.IndexFunc(a.options, func(o option) bool { return o.key == key })
	if i < 0 {
		return "", false
	}
	return a.options[i].value, true
}

// resources holds the API resources of the kinds of an act.
var resources = map[string]string{
	"volume": "persistentvolumes", "claim": "persistentvolumeclaims", "class": "storageclasses", "pod": "pods",
	"snapshot": snapshotapi.Snapshots.CommitName(), "groupsnapshot": snapshotapi.GroupSnapshots.CommitName(),
}

func namespaceOf(kind string) string {
	if kind == "volume" || kind == "class" {
		return ""
	}
	return metav1.NamespaceDefault
}

// Do performs the act in a world. user is the process of the acting user: Do runs in its task,
// which suspends at each request. A nil user acts from outside, on the goroutine that runs the
// world. Its requests take effect at once, waits run the world, and passing time sets the clock of
// a stepped world. The error says what failed.
func (a Act) Do(ctx context.Context, c *cluster.Cluster, user *sim.Process) error {
	client := c.Client()
	switch a.verb {
	case "create":
		if a.createsSnapshot() {
			return a.createSnapshot(ctx, c)
		}
		return a.create(ctx, c)
	case "apply":
		return a.apply(ctx, c)
	case "delete":
		return a.delete(ctx, c)
	case "patch":
		return a.patch(ctx, c)
	case "set":
		switch a.kind {
		case "node":
			return ignoreNotFound(a.setNode(ctx, client))
		case "pod":
			return ignoreNotFound(a.setPod(ctx, client))
		}
		if size, ok := a.option("size"); ok {
			return ignoreNotFound(a.requestSize(ctx, client, size))
		}
		return ignoreNotFound(a.set(ctx, client))
	case "finish":
		_, err := client.CoreV1().Pods(metav1.NamespaceDefault).
			Patch(ctx, a.name, types.MergePatchType, []byte(`{"status":{"phase":"Succeeded"}}`), metav1.PatchOptions{}, "status")
		return err
	case "write":
		return a.write(ctx, c)
	case "read":
		return a.read(ctx, c)
	case "cordon", "uncordon":
		patch := fmt.Sprintf(`{"spec":{"unschedulable":%t}}`, a.verb == "cordon")
		_, err := client.CoreV1().Nodes().Patch(ctx, a.name, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
		return err
	case "wait":
		return a.wait(ctx, c)
	case "disk":
		size, err := resource.ParseQuantity(a.args[1])
		if err != nil {
			return err
		}
		_, block := a.option("block")
		return c.AddDisk(a.name, cluster.Disk{Path: a.args[0], SizeBytes: size.Value(), Block: block})
	case "lose":
		return c.LoseDisk(a.name, a.args[0])
	case "limit":
		n, err := strconv.Atoi(a.name)
		if err != nil {
			return err
		}
		return c.SetVolumesPerNode(n)
	case "pass":
		d, err := time.ParseDuration(a.name)
		if err != nil {
			return err
		}
		return passTime(c, user, d)
	case "request":
		return a.request.Send(ctx, c.Server(), c.Host().ExternalCaller())
	default:
		if !c.Host().Inject(a.name) {
			name, target, _ := strings.Cut(a.name, " ")
			if err := c.ValidateFaults(sim.FaultSpecs{{Name: name, Target: target}}); err != nil {
				return fmt.Errorf("%s: not possible now: %w", a, err)
			}
			return fmt.Errorf("%s: not possible now", a)
		}
		return nil
	}
}

// passTime lets time pass.
func passTime(c *cluster.Cluster, user *sim.Process, d time.Duration) error {
	if user != nil {
		user.Sleep(d)
		return nil
	}
	host, stepped := c.Host().(*sim.Stepped)
	if !stepped {
		return errors.New("a live world has no settable clock")
	}
	host.SetTime(host.Now().Add(d))
	return nil
}

// ignoreNotFound returns err, or nil if the object does not exist.
func ignoreNotFound(err error) error {
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// object returns the object that the act creates. driver is the world's own.
func (a Act) object(driver string) fake.Object {
	var obj fake.Object
	switch a.kind {
	case "volume":
		obj = a.volume(driver)
	case "claim":
		obj = a.claim()
	case "class":
		obj = a.class(driver)
	default:
		obj = a.pod()
	}
	obj.SetNamespace(namespaceOf(a.kind))
	return obj
}

func (a Act) set(ctx context.Context, client kubernetes.Interface) error {
	volume := a.name
	if a.kind == "claim" {
		claim, err := client.CoreV1().PersistentVolumeClaims(metav1.NamespaceDefault).Get(ctx, a.name, metav1.GetOptions{})
		if err != nil || claim.Spec.VolumeName == "" {
			return err
		}
		volume = claim.Spec.VolumeName
	}
	uid := types.UID("")
	if name, ok := a.option("bind"); ok {
		claim, err := client.CoreV1().PersistentVolumeClaims(metav1.NamespaceDefault).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		uid = claim.UID
	}
	patch, err := json.Marshal(a.changes(uid))
	if err != nil {
		return err
	}
	_, err = client.CoreV1().PersistentVolumes().Patch(ctx, volume, types.MergePatchType, patch, metav1.PatchOptions{})
	return err
}

// changes returns the changes of a volume, as a merge patch. uid is that of the claim to which it
// is bound.
func (a Act) changes(uid types.UID) map[string]any {
	spec, annotations := map[string]any{}, map[string]any{}
	for _, o := range a.options {
		switch {
		case o.key == "reclaim":
			spec["persistentVolumeReclaimPolicy"] = o.value
		case o.key == "for" && o.value == "":
			spec["claimRef"] = nil
		case o.key == "for":
			spec["claimRef"] = map[string]any{"namespace": metav1.NamespaceDefault, "name": o.value, "uid": nil, "resourceVersion": nil}
		case o.key == "bind":
			spec["claimRef"] = map[string]any{
				"apiVersion": "v1", "kind": "PersistentVolumeClaim", "namespace": metav1.NamespaceDefault, "name": o.value,
				"uid": uid, "resourceVersion": nil,
			}
		case o.value == "":
			annotations[storagehelpers.AnnMigratedTo] = nil
		default:
			annotations[storagehelpers.AnnMigratedTo] = o.value
		}
	}
	return map[string]any{"spec": spec, "metadata": map[string]any{"annotations": annotations}}
}

// setPod sets the annotations of a pod that say how its containers behave.
func (a Act) setPod(ctx context.Context, client kubernetes.Interface) error {
	annotations := map[string]any{}
	for _, o := range a.options {
		name := kubelet.ReadyAnnotation
		if o.key == "exits" {
			name = kubelet.ExitCodesAnnotation
		}
		if annotations[name] = any(o.value); o.value == "" {
			annotations[name] = nil
		}
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": annotations}})
	if err != nil {
		return err
	}
	_, err = client.CoreV1().Pods(metav1.NamespaceDefault).Patch(ctx, a.name, types.MergePatchType, patch, metav1.PatchOptions{})
	return err
}

// setNode sets whether a node is ready or out of service.
func (a Act) setNode(ctx context.Context, client kubernetes.Interface) error {
	nodes := client.CoreV1().Nodes()
	if is, ok := a.option("ready"); ok {
		patch := fmt.Sprintf(`{"status":{"conditions":[{"type":"Ready","status":%q}]}}`, is)
		_, err := nodes.Patch(ctx, a.name, types.StrategicMergePatchType, []byte(patch), metav1.PatchOptions{}, "status")
		return err
	}
	is, _ := a.option("out-of-service")
	return setOutOfService(ctx, client, a.name, is == "true")
}

// setOutOfService adds or removes the taint of a node that is shut down. Other taints stay.
func setOutOfService(ctx context.Context, client kubernetes.Interface, name string, is bool) error {
	nodes := client.CoreV1().Nodes()
	for {
		node, err := nodes.Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		taints := &node.Spec.Taints
		*taints = slices.DeleteFunc(*taints, func(t corev1.Taint) bool { return t.Key == corev1.TaintNodeOutOfService })
		if is {
			*taints = append(*taints, corev1.Taint{Key: corev1.TaintNodeOutOfService, Effect: corev1.TaintEffectNoExecute})
		}
		if _, err = nodes.Update(ctx, node, metav1.UpdateOptions{}); !apierrors.IsConflict(err) {
			return err
		}
	}
}

// write writes a file into a volume of a pod. It waits while the volume is not mounted.
func (a Act) write(ctx context.Context, c *cluster.Cluster) error {
	write := func() error {
		return c.WriteFile(metav1.NamespaceDefault, a.name, a.args[0], a.name, []byte(content))
	}
	if size, ok := a.option("size"); ok {
		bytes := resource.MustParse(size) // it was checked
		write = func() error {
			return c.WriteZeros(metav1.NamespaceDefault, a.name, a.args[0], a.name, bytes.Value())
		}
	}
	return a.whenMounted(ctx, c, write)
}
