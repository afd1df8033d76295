package explore_test

import (
	"io/fs"
	"path"
	"strings"

	"github.com/volsim/volsim/cluster"
	"github.com/volsim/volsim/plugins/nodefs"
	"github.com/volsim/volsim/plugins/subpath"
)

// partMutants break subpaths of volumes for containers.
var partMutants = []mutant{
	{
		name: "a volume goes while a container has part of it", rule: "I40",
		scenario: nodeParts + hasPart, between: partDisk(hidesParts), config: holds, within: 1,
	},
	{
		name: "a restarted kubelet forgets what it has bound", rule: "I40",
		scenario: nodeParts + once("kubelet(node-1)", "crash") + hasPart, between: forgetsParts, config: restarts, within: 40,
	},
	{
		name: "what a container has is not of the volume", rule: "I40", history: "#104980",
		scenario: nodeParts + hasPart, between: partDisk(leadsOut), config: holds, within: 1,
	},
	{
		name: "a container starts without its part", rule: "I40",
		scenario: nodeParts + hasPart, between: partDisk(bindsNothing), config: holds, within: 1,
	},
	{
		name: "a node that has booted runs its pods without their parts", rule: "I27",
		scenario: nodeParts + bootsWithPart, between: partDisk(bindsOnce), config: holds, within: 1,
	},
	{
		name: "a directory is removed with what a container has there", rule: "I25", history: "#27651, #72257",
		scenario: nodeParts + "rules: I25\n" + hasPart, between: partDisk(removesAll), config: holds, within: 1,
	},
	{
		name: "the places of parts stay", rule: "L6",
		scenario: nodeParts + "rules: L6\n" + hasPart, between: partDisk(keepsPlaces), config: holds, within: 1,
	},
}

// hasPart is a pod that has part of a volume, writes there, and goes.
const hasPart = `
user alice
  create claim data 1Gi
  create pod web data on=node-1 sub=logs
  wait pod web Running
  write pod web data
  delete pod web
`

// bootsWithPart is a pod that runs, and runs again when its node has booted.
const bootsWithPart = `
user alice
  create claim data 1Gi
  create pod web data on=node-1 sub=logs
  wait pod web Running
  let reboot node-1
`

// brokenParts is a node's disk that is wrong about parts of volumes.
type brokenParts struct {
	nodefs.FS
	bind    func(base, inner, target string) error
	unmount func(name string) error
	readDir func(name string) ([]string, error)
	remove  func(name string) error
}

func (d brokenParts) BindWithin(base, inner, target string) error { return d.bind(base, inner, target) }
func (d brokenParts) Unmount(name string) error                   { return d.unmount(name) }
func (d brokenParts) ReadDir(name string) ([]string, error)       { return d.readDir(name) }
func (d brokenParts) Remove(name string) error                    { return d.remove(name) }

// partDisk breaks the disks of kubelets. meddle wraps the correct one.
func partDisk(meddle func(d *brokenParts)) func() cluster.Interceptors {
	return func() cluster.Interceptors {
		disks := map[nodefs.FS]*brokenParts{} // by node's disk: what one knows outlives its kubelet
		return cluster.Interceptors{FS: func(_ string, own nodefs.FS) nodefs.FS {
			if disks[own] == nil {
				disks[own] = &brokenParts{own, own.BindWithin, own.Unmount, own.ReadDir, own.Remove}
				meddle(disks[own])
			}
			return *disks[own]
		}}
	}
}

func ofParts(name string) bool { return strings.Contains(name, "/"+subpath.Dir) }

// hidesParts says that there are none.
func hidesParts(d *brokenParts) {
	d.readDir = func(name string) ([]string, error) {
		if ofParts(name) {
			return nil, fs.ErrNotExist
		}
		return d.FS.ReadDir(name)
	}
}

// forgetsParts knows of those only that the same process has bound.
func forgetsParts() cluster.Interceptors {
	return cluster.Interceptors{FS: func(_ string, own nodefs.FS) nodefs.FS {
		d := brokenParts{own, own.BindWithin, own.Unmount, own.ReadDir, own.Remove}
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

// leadsOut binds what is outside, as if a link had been followed.
func leadsOut(d *brokenParts) {
	d.bind = func(base, _, target string) error { return d.FS.BindMount(path.Dir(base), target, false) }
}

// bindsNothing says that it did.
func bindsNothing(d *brokenParts) {
	d.bind = func(string, string, string) error { return nil }
}

// bindsOnce treats a subpath that was bound once as bound.
func bindsOnce(d *brokenParts) {
	bound := map[string]bool{}
	d.bind = func(base, inner, target string) error {
		if bound[target] {
			return nil
		}
		bound[target] = true
		return d.FS.BindWithin(base, inner, target)
	}
}

// removesAll removes all that is in a part before it is unmounted.
func removesAll(d *brokenParts) {
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

// keepsPlaces removes none, and says that it did.
func keepsPlaces(d *brokenParts) {
	d.remove = func(name string) error {
		if ofParts(name) {
			return nil
		}
		return d.FS.Remove(name)
	}
}
