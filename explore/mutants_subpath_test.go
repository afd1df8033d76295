package explore_test

import (
	"io/fs"
	"path"
	"strings"

	"github.com/volsim/volsim/cluster"
	"github.com/volsim/volsim/plugins/nodefs"
	"github.com/volsim/volsim/plugins/subpath"
)

// subPathMutants break subpaths of volumes for containers.
var subPathMutants = []mutant{
	{
		name: "a volume is unmounted while a container uses a subPath of it", rule: "I40",
		scenario: nodeComponents + usesSubPath, between: subPathDisk(hidesSubPaths), config: holds, within: 1,
	},
	{
		name: "a restarted kubelet forgets its bound subPaths", rule: "I40",
		scenario: nodeComponents + once("kubelet(node-1)", "crash") +
			usesSubPath, between: forgetsSubPaths, config: restarts, within: 40,
	},
	{
		name: "a container's subPath is outside of the volume", rule: "I40", history: "#104980",
		scenario: nodeComponents + usesSubPath, between: subPathDisk(leadsOut), config: holds, within: 1,
	},
	{
		name: "a container starts without its subPath", rule: "I40",
		scenario: nodeComponents + usesSubPath, between: subPathDisk(bindsNothing), config: holds, within: 1,
	},
	{
		name: "a rebooted node runs its pods without their subPaths", rule: "I27",
		scenario: nodeComponents + bootsWithSubPath, between: subPathDisk(bindsOnce), config: holds, within: 1,
	},
	{
		name: "a directory is removed with the subPaths bound below it", rule: "I25", history: "#27651, #72257",
		scenario: nodeComponents + "rules: I25\n" +
			usesSubPath, between: subPathDisk(removesAll), config: holds, within: 1,
	},
	{
		name: "the directories of subPaths stay", rule: "L6",
		scenario: nodeComponents + "rules: L6\n" +
			usesSubPath, between: subPathDisk(keepsSubPathDirs), config: holds, within: 1,
	},
}

// usesSubPath is a pod that uses a subPath, writes there, and is deleted.
const usesSubPath = `
user alice
  create claim data 1Gi
  create pod web data on=node-1 sub=logs
  wait pod web Running
  write pod web data
  delete pod web
`

// bootsWithSubPath is a pod that runs, and runs again after a reboot of its node.
const bootsWithSubPath = `
user alice
  create claim data 1Gi
  create pod web data on=node-1 sub=logs
  wait pod web Running
  let reboot node-1
`

// brokenSubPaths is a node's disk with defects of subPaths.
type brokenSubPaths struct {
	nodefs.FS
	bind    func(base, inner, target string) error
	unmount func(name string) error
	readDir func(name string) ([]string, error)
	remove  func(name string) error
}

func (d brokenSubPaths) BindWithin(base, inner, target string) error {
	return d.bind(base, inner, target)
}
func (d brokenSubPaths) Unmount(name string) error             { return d.unmount(name) }
func (d brokenSubPaths) ReadDir(name string) ([]string, error) { return d.readDir(name) }
func (d brokenSubPaths) Remove(name string) error              { return d.remove(name) }

// subPathDisk intercepts the disks of kubelets. mutate changes the correct one.
func subPathDisk(mutate func(d *brokenSubPaths)) func() cluster.Interceptors {
	return func() cluster.Interceptors {
		disks := map[nodefs.FS]*brokenSubPaths{} // by disk: its state outlives the kubelet
		return cluster.Interceptors{FS: func(_ string, own nodefs.FS) nodefs.FS {
			if disks[own] == nil {
				disks[own] = &brokenSubPaths{own, own.BindWithin, own.Unmount, own.ReadDir, own.Remove}
				mutate(disks[own])
			}
			return *disks[own]
		}}
	}
}

func ofParts(name string) bool { return strings.Contains(name, "/"+subpath.Dir) }

// hidesSubPaths finds no subPaths.
func hidesSubPaths(d *brokenSubPaths) {
	d.readDir = func(name string) ([]string, error) {
		if ofParts(name) {
			return nil, fs.ErrNotExist
		}
		return d.FS.ReadDir(name)
	}
}

// forgetsSubPaths finds only the subPaths that the same process has bound.
func forgetsSubPaths() cluster.Interceptors {
	return cluster.Interceptors{FS: func(_ string, own nodefs.FS) nodefs.FS {
		d := brokenSubPaths{own, own.BindWithin, own.Unmount, own.ReadDir, own.Remove}
		bound := false
		d.bind = func(base, inner, target string) error {
			bound = true
			return own.BindWithin(base, inner, target)
		}
		d.readDir = func(name string) ([]string, error) {
			if ofParts(name) && !bound {
				return nil, fs.ErrNotExist
			}
			return own.ReadDir(name)
		}
		return d
	}}
}

// leadsOut binds a directory outside of the volume, as if it had followed a link.
func leadsOut(d *brokenSubPaths) {
	d.bind = func(base, _, target string) error { return d.FS.BindMount(path.Dir(base), target, false) }
}

// bindsNothing reports a bind without binding.
func bindsNothing(d *brokenSubPaths) {
	d.bind = func(string, string, string) error { return nil }
}

// bindsOnce treats a subPath that was bound once as bound.
func bindsOnce(d *brokenSubPaths) {
	bound := map[string]bool{}
	d.bind = func(base, inner, target string) error {
		if bound[target] {
			return nil
		}
		bound[target] = true
		return d.FS.BindWithin(base, inner, target)
	}
}

// removesAll removes the content of a subPath before unmounting it.
func removesAll(d *brokenSubPaths) {
	d.unmount = func(name string) error {
		if !ofParts(name) {
			return d.FS.Unmount(name)
		}
		names, err := d.FS.ReadDir(name)
		for _, n := range names {
			_ = d.FS.RemoveAll(path.Join(name, n))
		}
		if err != nil {
			return err
		}
		return d.FS.Unmount(name)
	}
}

// keepsSubPathDirs reports the removal of subPath directories without removing them.
func keepsSubPathDirs(d *brokenSubPaths) {
	d.remove = func(name string) error {
		if ofParts(name) {
			return nil
		}
		return d.FS.Remove(name)
	}
}
