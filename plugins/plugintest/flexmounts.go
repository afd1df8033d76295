package plugintest

import (
	"context"
	"errors"
	"io/fs"
	"path"

	"github.com/volsim/volsim/plugins/nodefs"
)

// A formatter is a disk on which devices can be mounted.
type formatter interface {
	FormatAndMount(ctx context.Context, device, target, fsType string, options []string) error
}

// mounted reports whether something is mounted at a path.
func (c *flexChecker) mounted(path string) bool {
	is, err := c.FS.IsMountPoint(path)
	return err == nil && is
}

func (c *flexChecker) deviceDir(i int) string { return path.Join(c.Dir, "devices", volumeName(i)) }

func (c *flexChecker) podDir(i int, pod string) string { return path.Join(c.Dir, pod, volumeName(i)) }

// mountDevice attaches a volume and mounts it for the node, as a kubelet does.
func (c *flexChecker) mountDevice(i int) (ok bool) {
	device, ok := c.attach(i)
	if !ok || !c.attaches {
		return ok
	}
	dir := c.deviceDir(i)
	if err := c.FS.MkdirAll(dir); err != nil {
		c.problem("the disk", "%v", err)
		return false
	}
	if _, ok = c.want("for an attached volume", "mountdevice", dir, device, c.options(i, false)); ok {
		return true
	}
	disk, formats := c.FS.(formatter)
	if !c.unsupported["mountdevice"] || device == "" || !formats {
		return c.unsupported["mountdevice"]
	}
	if err := disk.FormatAndMount(c.ctx, device, dir, "ext4", nil); err != nil {
		c.problem("attach: the device cannot be mounted", "%v", err)
		return false
	}
	return true
}

// unmountDevice undoes mountDevice.
func (c *flexChecker) unmountDevice(i int) {
	dir := c.deviceDir(i)
	if c.mounted(dir) {
		c.unmount("unmountdevice", dir)
	}
	c.removeDir("unmountdevice", dir)
	c.detach(i)
}

// unmount makes the program unmount, or unmounts.
func (c *flexChecker) unmount(call, dir string) {
	if _, ok := c.want("for a mounted volume", call, dir); ok && c.mounted(dir) {
		c.problem(call+": reports success, but the volume is mounted", "%s", dir)
	}
	if c.unsupported[call] || c.mounted(dir) {
		_ = c.FS.Unmount(dir)
	}
}

// removeDir removes a directory for a mount, which the program may have done.
func (c *flexChecker) removeDir(call, dir string) {
	if err := c.FS.Remove(dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
		c.problem(call+": the directory cannot be removed", "%v", err)
	}
}

// mount mounts a volume for a pod, after mountDevice.
func (c *flexChecker) mount(i int, pod string, readOnly bool) (dir string, ok bool) {
	dir = c.podDir(i, pod)
	if err := c.FS.MkdirAll(dir); err != nil {
		c.problem("the disk", "%v", err)
		return dir, false
	}
	if _, ok = c.want("for a volume that exists", "mount", dir, c.options(i, readOnly, podOptions(pod))); !ok {
		if !c.unsupported["mount"] {
			return dir, false
		}
		if !c.mounted(c.deviceDir(i)) {
			c.problem("mount: is not supported, and nothing is mounted for the node", "%s", c.deviceDir(i))
			return dir, false
		}
		if err := c.FS.BindMount(c.deviceDir(i), dir, readOnly); err != nil {
			c.problem("the disk", "%v", err)
			return dir, false
		}
	}
	files, err := c.FS.ReadDir(dir)
	if !c.mounted(dir) && (err != nil || len(files) == 0) {
		c.problem("mount: reports success, but nothing is mounted", "%s", dir)
		return dir, false
	}
	return dir, true
}

// unmountPod undoes mount.
func (c *flexChecker) unmountPod(i int, pod string) {
	dir := c.podDir(i, pod)
	c.unmount("unmount", dir)
	c.removeDir("unmount", dir)
}

// checkLife has two pods use a volume at once, and a third one after it was attached again.
func (c *flexChecker) checkLife() {
	if !c.mountDevice(0) {
		return
	}
	one, ok := c.mount(0, "one", false)
	two, okToo := c.mount(0, "two", false)
	if !ok || !okToo {
		return
	}
	c.write(one, "kept")
	c.wantFile("mount: a second pod does not see the files of the first", two, "kept")
	c.unmountPod(0, "one")
	c.wantFile("unmount: affects another pod", two, "kept")
	c.unmountPod(0, "two")
	if again := c.podDir(0, "two"); c.FS.MkdirAll(again) == nil {
		c.want("for an existing directory that is not mounted", "unmount", again)
		c.removeDir("unmount", again)
	}
	c.unmountDevice(0)
	if !c.mountDevice(0) {
		return
	}
	if dir, ok := c.mount(0, "three", false); ok {
		c.wantFile("mount: files are lost when a volume is mounted again", dir, "kept")
	}
}

// checkReadOnly has a pod use a volume read-only.
func (c *flexChecker) checkReadOnly() {
	if !c.mountDevice(0) {
		return
	}
	dir, ok := c.mount(0, "reader", true)
	if !ok {
		return
	}
	if err := c.FS.WriteFile(path.Join(dir, "new"), nil); !errors.Is(err, nodefs.ErrReadOnly) {
		c.problem("mount: a read-only volume can be written to", "%v", err)
	}
}

// checkTwoVolumes has a pod use two volumes.
func (c *flexChecker) checkTwoVolumes() {
	var dirs [2]string
	for i := range c.Volumes {
		ok := c.mountDevice(i)
		if ok {
			dirs[i], ok = c.mount(i, "both", false)
		}
		if !ok {
			return
		}
		c.write(dirs[i], volumeName(i))
	}
	for i, dir := range dirs {
		if there, err := c.FS.Exists(path.Join(dir, volumeName(1-i))); err != nil || there {
			c.problem("mount: two volumes have the same files", "%s: %v", dir, err)
		}
	}
	c.unmountPod(0, "both")
	c.unmountDevice(0)
	c.wantFile("unmount: affects another volume", dirs[1], volumeName(1))
}

func (c *flexChecker) write(dir, name string) {
	if err := c.FS.WriteFile(path.Join(dir, name), []byte(name)); err != nil {
		c.problem("mount: the volume cannot be written to", "%v", err)
	}
}

func (c *flexChecker) wantFile(rule, dir, name string) {
	if data, err := c.FS.ReadFile(path.Join(dir, name)); err != nil || string(data) != name {
		c.problem(rule, "%q, %v", data, err)
	}
}

// checkExpansion expands a volume to the size that it may have already.
func (c *flexChecker) checkExpansion() {
	if !c.mountDevice(1) {
		return
	}
	dir, ok := c.mount(1, "larger", false)
	if !ok {
		return
	}
	const size, before = "134217728", "67108864"
	c.write(dir, "grown")
	for range 2 {
		c.want("for a mounted volume", "expandvolume", c.options(1, false), c.deviceDir(1), size, before)
		device, _ := c.attach(1)
		c.want("for a mounted volume", "expandfs", c.options(1, false), device, dir, size, before)
	}
	c.wantFile("expandfs: files are lost", dir, "grown")
}

// checkBadArguments checks that mistakes are reported as failures.
func (c *flexChecker) checkBadArguments() {
	for _, bad := range []struct {
		what string
		call string
		args []string
	}{
		{"no arguments", "attach", nil},
		{"no arguments", "mount", nil},
		{"no arguments", "unmount", nil},
		{"options that are not JSON", "attach", []string{"{", c.Node}},
		{"options that are not JSON", "mount", []string{c.Dir, "{"}},
		{"options that are not JSON", "mountdevice", []string{c.Dir, "/dev/none", "{"}},
		{"a device that does not exist", "mountdevice", []string{c.Dir, "/dev/volsim-no-such-device", c.options(0, false)}},
		{"a device that does not exist", "waitforattach", []string{"/dev/volsim-no-such-device", c.options(0, false)}},
	} {
		c.wantFailure(bad.what, bad.call, bad.args...)
	}
	if c.Missing == nil {
		return
	}
	own := c.Volumes[0]
	c.Volumes[0] = c.Missing
	defer func() { c.Volumes[0] = own }()
	c.wantFailure("a volume that does not exist", "attach", c.options(0, false), c.Node)
	dir := c.podDir(0, "missing")
	if err := c.FS.MkdirAll(dir); err == nil {
		c.wantFailure("a volume that does not exist", "mount", dir, c.options(0, false, podOptions("missing")))
		c.removeDir("mount", dir)
	}
}

func (c *flexChecker) wantFailure(what, call string, args ...string) {
	if c.unsupported[call] {
		return
	}
	if a := c.call(call, args...); a.Status == succeeded {
		c.problem(call+": succeeds with "+what, "%q", args)
	}
}

// cleanUp undoes what a check has left, as it may have ended early.
func (c *flexChecker) cleanUp() {
	for i := range c.Volumes {
		for _, pod := range []string{"one", "two", "three", "reader", "both", "larger"} {
			if c.mounted(c.podDir(i, pod)) {
				c.unmountPod(i, pod)
			}
		}
		if there, err := c.FS.Exists(c.deviceDir(i)); err == nil && there {
			c.unmountDevice(i)
		}
	}
}
