package cluster_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/volsim/volsim/cluster"
	"github.com/volsim/volsim/internal/loopdev"
	"github.com/volsim/volsim/internal/lvm2"
	"github.com/volsim/volsim/internal/testcheck"
)

// useGroups gives node-1 a disk for local storage, and creates pods that use a file system and a raw volume on it.
func useGroups(ctx context.Context, c *cluster.Cluster) error {
	raw := strings.NewReplacer("accessModes", "volumeMode: Block\n  accessModes", "volumeMounts: [{mountPath", "volumeDevices: [{devicePath").
		Replace(groupUser("group-raw", "fast", "16Mi"))
	err := c.AddDisk("node-1", cluster.Disk{Path: "/dev/sdb", SizeBytes: 64 << 20, Block: true})
	for _, text := range []string{groupClass("fast", `[{"node":"node-1","disks":["/dev/sdb"]}]`), groupUser("group-files", "fast", "16Mi"), raw} {
		err = errors.Join(err, c.Apply(ctx, text))
	}
	for _, name := range []string{"group-files", "group-raw"} {
		if err == nil {
			err = c.WaitForPod(ctx, "default", name, corev1.PodRunning)
		}
	}
	return err
}

// loopsOf returns the loop devices over the files of a directory, and those over these devices.
func loopsOf(t *testing.T, dir string) []loopdev.Binding {
	t.Helper()
	all := testcheck.Must(loopdev.List(func(backing string) bool { return strings.HasPrefix(backing, dir+"/") }))
	var devices []string
	for _, each := range all {
		devices = append(devices, each.Device)
	}
	for _, each := range testcheck.Must(loopdev.Over(devices...)) {
		if !slices.Contains(all, each) {
			all = append(all, each)
		}
	}
	return all
}

// TestKilledRunWithGroupsIsCleared kills a cluster whose volumes are in volume groups of local storage: on partitions of a loop
// device over that of a disk. The next cluster removes all of them, and makes a group of a new disk with the same name.
func TestKilledRunWithGroupsIsCleared(t *testing.T) {
	needDevices(t, cluster.LVM)
	eachRealDevices(t, func(t *testing.T, devices cluster.Devices) {
		dir := t.TempDir()
		clearAway(t, dir)
		command := runUntilKilled(t, devices, dir)
		command.Env = append(command.Env, killedNoDisks+"=1", killedGroups+"=1")
		_, kill := waitForVolume(t, command)
		left := loopsOf(t, dir)
		if !slices.ContainsFunc(left, func(b loopdev.Binding) bool {
			return b.Mark == lvm2.DiskMark && strings.HasPrefix(b.BackingFile, "/dev/loop")
		}) {
			t.Errorf("no device of the group in %+v", left)
		}
		kill()

		c := testcheck.Must(cluster.New(cluster.Config{Devices: devices, Dir: dir, LocalStorage: true}))
		if cleared := c.Cleared(); len(cleared) != 1 || !strings.HasPrefix(cleared[0], "removed 2 volume") {
			t.Errorf("cleared %q", cleared)
		}
		now := testcheck.Must(loopdev.List(func(string) bool { return true }))
		for _, each := range left {
			// The new cluster's own disks have the names of the old ones, and may have their devices and inodes.
			own := strings.HasPrefix(each.BackingFile, dir+"/disk-")
			if !own && slices.Contains(now, each) {
				t.Errorf("left: %+v", each)
			}
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if err := errors.Join(c.Start(ctx), useGroups(ctx, c)); err != nil {
			t.Errorf("%v\n%s", err, tail(c.Trace().Text(), 30))
		}
		left = loopsOf(t, dir)
		testcheck.NoError(t, c.Close())
		now = testcheck.Must(loopdev.List(func(string) bool { return true }))
		for _, each := range left {
			if slices.Contains(now, each) {
				t.Errorf("left after Close: %+v", each)
			}
		}
		nothingLeft(t, dir)
	})
}
