package main

import (
	"errors"
	"fmt"
	"os"
	"path"

	"github.com/moby/sys/mountinfo"
	mountutils "k8s.io/mount-utils"
)

// newNFS returns the driver of directories that a server exports. It attaches nothing.
func newNFS() (driver, error) {
	return driver{
		"init":    {0, func([]string) (answer, error) { return answer{Capabilities: map[string]bool{"attach": false}}, nil }},
		"mount":   {2, func(args []string) (answer, error) { return answer{}, mountExport(args[0], args[1]) }},
		"unmount": {1, func(args []string) (answer, error) { return answer{}, unmount(args[0]) }},
	}, nil
}

// mountExport mounts the directory "share" of "server". Where the kernel has no NFS, "export" is a
// directory of this machine that stands for the exported one, and is bound.
func mountExport(target, text string) error {
	o, err := parseOptions(text)
	if err != nil {
		return err
	}
	if mounted, err := mountinfo.Mounted(target); err != nil || mounted {
		return err
	}
	mounter := mountutils.New("")
	if export := o["export"]; export != "" {
		if !path.IsAbs(export) {
			return fmt.Errorf("option export: %q is not an absolute path", export)
		}
		return mounter.Mount(export, target, "", []string{"bind", o.access()})
	}
	if o["server"] == "" || o["share"] == "" {
		return errors.New("options server and share are required")
	}
	return mounter.Mount(o["server"]+":"+o["share"], target, "nfs", []string{o.access()})
}

// unmount unmounts what is mounted at a path, if anything.
func unmount(target string) error {
	mounted, err := mountinfo.Mounted(target)
	if errors.Is(err, os.ErrNotExist) || err == nil && !mounted {
		return nil
	}
	if err != nil {
		return err
	}
	return mountutils.New("").Unmount(target)
}
