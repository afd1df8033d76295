package invariant

import (
	"crypto/sha256"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/sim/trace"
)

// Rules about what containers read and write. They begin with the first access of a container to a file.
var containerDataRules = []builtIn{
	{"I68", "a file that a container wrote and later pods of the claim do not have", containerDataRule(beginWrittenData("I68"))},
	{"I69", "a file of a snapshot or claim that its copy does not have", containerDataRule(beginWrittenData("I69"))},
	{"I70", "a container that uses a directory of its node instead of its volume", containerDataRule(beginBareDirectories)},
}

// aboutContainers is the subject of these rules. No resource begins it; see isContainerAccess.
var aboutContainers = subject{}

func containerDataRule(begin func(c *Checker) watcher) func(c *Checker) watcher {
	return func(*Checker) watcher { return watcher{later: later{&aboutContainers, begin}} }
}

// isContainerAccess reports whether a record is the access of a container to a path.
func isContainerAccess(r trace.Record) bool {
	return r.Kind == trace.KindWork && strings.HasPrefix(r.Task, "containers(") && strings.HasPrefix(r.Object, "/")
}

// observeAccess begins these rules at the first access of a container, and lets the rules about lost files take in
// what it has changed. Those have no watcher for it, which worlds without containers would have to pay for.
func (c *Checker) observeAccess(r trace.Record) {
	if c.waits(&aboutContainers) {
		c.start(&aboutContainers)
	}
	a, ok := containerAccessOf(r)
	if !ok || a.reads() {
		return
	}
	if c.files != nil {
		c.files.relearn()
	}
	if c.directories != nil {
		c.directories.relearn(a.node)
	}
}

// A containerAccess is an access of a container to a path.
type containerAccess struct {
	node, pod, container string // pod is a UID
	verb, path           string
}

// containerAccessOf parses a record whose task is "containers(NODE)/UID/CONTAINER/RUN/PID". ok is false for
// another one.
func containerAccessOf(r trace.Record) (a containerAccess, ok bool) {
	if !isContainerAccess(r) {
		return a, false
	}
	words := strings.Split(r.Task, "/")
	if len(words) < 3 {
		return a, false
	}
	return containerAccess{nodeOfTask(r.Task), words[1], words[2], r.Verb, r.Object}, true
}

// reads reports whether the access changes no file.
func (a containerAccess) reads() bool {
	switch a.verb {
	case "open", "read", "readdir", "readlink", "stat", "statfs", "exec", "capacity", "sync":
		return true
	}
	return false
}

// A writtenFile is what is known of a file of a volume.
type writtenFile struct {
	hash  [sha256.Size]byte
	dirty string // the node whose memory alone may have it; "": it is on the device
	from  string // the snapshot or claim from which it was copied; "": a container wrote it
}

// writtenFiles are those of a volume, by path.
type writtenFiles map[string]writtenFile

// A writtenData is the state of I68 and I69.
type writtenData struct {
	*Checker
	id        string
	volumes   map[string]writtenFiles // by handleKey
	copies    map[string]writtenFiles // of volumes whose PersistentVolume does not exist yet, by "driver/requested name"
	snapshots map[string]writtenFiles // by "driver/handle"
}

// beginWrittenData checks that a mounted volume has the files that containers wrote into it (I68), or that its
// source had when it was copied (I69). It checks after each call of a node's driver, when a container reads, and
// at rest. What a container wrote may be lost with the memory of its node, until a sync or a clean unmount. A
// snapshot or a copy need not have it before. Files that users write by other means are not checked.
func beginWrittenData(id string) func(c *Checker) watcher {
	return func(c *Checker) watcher {
		if _, reads := c.Devices.(diskReader); !reads {
			return watcher{}
		}
		d := &writtenData{c, id, map[string]writtenFiles{}, map[string]writtenFiles{}, map[string]writtenFiles{}}
		return watcher{
			work:    d.work,
			call:    d.call,
			event:   d.event,
			commits: volumesOnly,
			commit:  d.commit,
			settled: func(func(format string, a ...any)) {
				for _, node := range c.Devices.Nodes() {
					d.check(node, "")
				}
			},
		}
	}
}

// work takes in what a container has changed, or checks what it reads.
func (d *writtenData) work(r trace.Record) {
	a, ok := containerAccessOf(r)
	switch {
	case !ok:
	case a.verb == "sync":
		d.sync(a)
	case a.reads():
		d.check(a.node, a.pod)
	default:
		for _, m := range d.podMounts(a.node, a.pod) {
			d.learn(m, a.node)
		}
	}
}

// A mountedVolume is the volume of a CSI driver in the directory of a pod.
type mountedVolume struct {
	key  string // handleKey
	pod  string // UID
	name string // of the PersistentVolume
	path string
}

// podMounts returns the volumes that are mounted for a pod on a node; pod "" means all pods.
func (d *writtenData) podMounts(node, pod string) []mountedVolume {
	var all []mountedVolume
	for _, m := range d.Devices.Mounts(node) {
		at, ok := podMountAt(m.Path)
		if !ok || !strings.HasSuffix(m.Path, "/mount") || pod != "" && at.uid != pod {
			continue
		}
		if v := csiVolumeNamed(d.API, at.volume); v != nil {
			all = append(all, mountedVolume{handleKey(v), at.uid, v.Name, m.Path})
		}
	}
	return all
}

// read returns the hashes of the files of a mounted volume.
func (d *writtenData) read(m mountedVolume, node string) map[string][sha256.Size]byte {
	disk, _ := d.diskOf(node)
	files, hashes := map[string]string{}, map[string][sha256.Size]byte{}
	readFiles(disk, m.path, "", files)
	for name, data := range files {
		hashes[name] = sha256.Sum256([]byte(data))
	}
	return hashes
}

// learn takes in the files of a volume after a container of a node has changed it.
func (d *writtenData) learn(m mountedVolume, node string) {
	now := d.read(m, node)
	known := d.volumes[m.key]
	if known == nil {
		known = writtenFiles{}
		d.volumes[m.key] = known
	}
	for name, hash := range now {
		if was, is := known[name]; !is || was.hash != hash {
			known[name] = writtenFile{hash: hash, dirty: node}
		}
	}
	maps.DeleteFunc(known, func(name string, _ writtenFile) bool {
		_, exists := now[name]
		return !exists
	})
}

// check compares the volumes that are mounted for a pod on a node, "" for all pods, with what is known. A file is
// reported once.
func (d *writtenData) check(node, pod string) {
	for _, m := range d.podMounts(node, pod) {
		known := d.volumes[m.key]
		if len(known) == 0 {
			continue
		}
		now := d.read(m, node)
		for _, name := range slices.Sorted(maps.Keys(known)) {
			f := known[name]
			hash, exists := now[name]
			if exists && hash == f.hash {
				continue
			}
			delete(known, name)
			if (f.from != "") != (d.id == "I69") {
				continue
			}
			what, claim := "does not have", d.claimOfVolume(m.name)
			if exists {
				what = "has other data than"
			}
			if f.from != "" {
				d.report("I69", "volume %s on node %s, %s, %s file %s of %s", m.name, node, claim, what, name, f.from)
			} else {
				d.report("I68", "volume %s on node %s, %s, %s file %s, which a container wrote", m.name, node, claim, what, name)
			}
		}
	}
}

// claimOfVolume returns in words the claim of a PersistentVolume.
func (d *writtenData) claimOfVolume(name string) string {
	if v := d.volumeNamed(name); v != nil && v.Spec.ClaimRef != nil {
		return "claim " + v.Spec.ClaimRef.Namespace + "/" + v.Spec.ClaimRef.Name
	}
	return "without a claim"
}

// sync marks what a container's sync has written to the devices: all files of its node, or the named one.
func (d *writtenData) sync(a containerAccess) {
	for _, files := range d.volumes { // any order
		for name, f := range files {
			if f.dirty == a.node && (a.path == "/" || strings.HasSuffix(a.path, "/"+name)) {
				f.dirty = ""
				files[name] = f
			}
		}
	}
}

// clean marks all files of a volume that a node has unmounted.
func (files writtenFiles) clean(node string) {
	for name, f := range files { // any order
		if f.dirty == node {
			f.dirty = ""
			files[name] = f
		}
	}
}

// lose forgets what only the memory of a node had.
func (files writtenFiles) lose(node string) {
	maps.DeleteFunc(files, func(_ string, f writtenFile) bool { return f.dirty == node })
}

// copied returns what a copy must have.
func (files writtenFiles) copied(from string) writtenFiles {
	made := writtenFiles{}
	for name, f := range files {
		if f.dirty == "" {
			made[name] = writtenFile{hash: f.hash, from: from}
		}
	}
	return made
}

func (d *writtenData) event(r trace.Record) {
	if r.Verb == "reboot" {
		for _, files := range d.volumes { // any order
			files.lose(restartedNode(r))
		}
	}
}

func (d *writtenData) call(r trace.Record) {
	if !tookEffect(r) {
		return
	}
	call := d.callOf(r)
	key := call.driver + "/" + call.handle
	switch r.Verb {
	case "NodeUnpublishVolume", "NodeUnstageVolume":
		if len(d.mountsOf(call.at())) == 0 {
			d.volumes[key].clean(call.node)
		}
	case "NodeStageVolume", "NodePublishVolume", "NodeExpandVolume":
		d.check(call.node, "")
	case "ControllerUnpublishVolume":
		d.volumes[key].lose(call.node)
	case "CreateVolume":
		d.copyVolume(key)
	case "DeleteVolume":
		delete(d.volumes, key)
	case "CreateSnapshot", "CreateVolumeGroupSnapshot":
		d.cut(call.driver)
	}
}

// cut keeps what each new snapshot of a driver must have.
func (d *writtenData) cut(driver string) {
	b := d.snapshotBackend(driver)
	if b == nil {
		return
	}
	for _, s := range b.Snapshots() {
		key := driver + "/" + s.Handle
		if _, known := d.snapshots[key]; known {
			continue
		}
		for _, o := range d.allContents() {
			if o.driver == driver && o.source != "" && o.names(s) {
				d.snapshots[key] = d.volumes[driver+"/"+o.source].copied("")
			}
		}
	}
}

// copyVolume keeps what a volume must have that was requested under a name, if the claim has a source.
func (d *writtenData) copyVolume(key string) {
	if _, known := d.copies[key]; known {
		return // the driver returns the same volume
	}
	driver, name, _ := strings.Cut(key, "/")
	for _, obj := range d.API.List("persistentvolumeclaims") {
		claim := obj.(*corev1.PersistentVolumeClaim)
		if !strings.HasSuffix(name, string(claim.UID)) || claim.UID == "" {
			continue
		}
		words, handle := d.sourceOf(claim)
		from := d.volumes[driver+"/"+handle]
		if strings.HasPrefix(words, "snapshot ") {
			from = d.snapshots[driver+"/"+handle]
		}
		if len(from) > 0 {
			d.copies[key] = from.copied(words)
		}
	}
}

// commit connects a new PersistentVolume with what its volume must have.
func (d *writtenData) commit(e fake.Commit) {
	v := e.After.(*corev1.PersistentVolume)
	if e.Type != "ADDED" || v.Spec.CSI == nil {
		return
	}
	name := v.Spec.CSI.Driver + "/" + v.Name
	if files := d.copies[name]; files != nil && d.volumes[handleKey(v)] == nil {
		d.volumes[handleKey(v)] = files
		delete(d.copies, name)
	}
}
