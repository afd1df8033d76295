package lvm

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"golang.org/x/sys/unix"

	"github.com/volsim/volsim/internal/blockcsi"
	"github.com/volsim/volsim/internal/testcheck"
	"github.com/volsim/volsim/plugins/nodefs"
)

// The benchmarks compare an operation of the driver with the commands that a user would type, in
// the same volume group. Besides the time they report the processor time of this process and its
// commands, which does not depend on other load.

// bench is a driver whose volumes are in memory, so that the disk is not measured.
type bench struct {
	*machine
	b     *testing.B
	group string
}

func newBench(b *testing.B) *bench {
	b.Helper()
	needLVM(b)
	m := &machine{TB: b, dir: quickDir(b)}
	var err error
	m.fs, err = nodefs.NewReal(filepath.Join(m.dir, "node"))
	testcheck.NoError(m, err)
	m.open()
	b.Cleanup(func() {
		testcheck.NoError(m, m.fs.UnmountAll())
		testcheck.NoError(m, m.driver.Destroy(context.Background()))
	})
	m.driver.Node(node, m.fs)
	return &bench{machine: m, b: b, group: groupIn(m.dir)}
}

// compare measures the driver and the typed commands.
func (n *bench) compare(driver, bare func(i int)) {
	n.measure("driver", driver)
	n.measure("bare", bare)
}

func (n *bench) measure(name string, f func(i int)) {
	n.b.Run(name, func(b *testing.B) {
		before := used(b)
		for i := range b.N {
			f(i)
		}
		b.ReportMetric((used(b)-before)/float64(b.N), "cpu-ms/op")
	})
}

// used returns the processor time of this process and its children in milliseconds.
func used(b *testing.B) float64 {
	b.Helper()
	var sum float64
	for _, who := range []int{unix.RUSAGE_SELF, unix.RUSAGE_CHILDREN} {
		var usage unix.Rusage
		if err := unix.Getrusage(who, &usage); err != nil {
			b.Fatal(err)
		}
		for _, each := range []unix.Timeval{usage.Utime, usage.Stime} {
			sum += float64(each.Nano()) / 1e6
		}
	}
	return sum
}

// run runs a command as a user types it.
func (n *bench) run(line string) {
	words := strings.Fields(line)
	command := exec.Command(words[0], words[1:]...)
	command.Env = append(os.Environ(), "LVM_SYSTEM_DIR="+filepath.Join(n.dir, "lvm"), "LVM_SUPPRESS_FD_WARNINGS=1",
		"DM_DISABLE_UDEV=1")
	output, err := command.CombinedOutput()
	if err != nil {
		n.b.Fatalf("%s: %v: %s", line, err, output)
	}
}

// The commands for a volume.

func (n *bench) lvcreate(name string, mebibytes int, disks ...string) {
	how := "-an -Zn -Wn --contiguous y"
	if hasMapper() {
		how = "-an -Zn -Wn"
	}
	n.run(fmt.Sprintf("lvm lvcreate -q -y %s -L %dm -n %s %s %s", how, mebibytes, name, n.group,
		strings.Join(disks, " ")))
}

func (n *bench) lvremove(name string) { n.run("lvm lvremove -q -y " + n.group + "/" + name) }

// number is that of the partition that is created manually; the driver's start at 1.
const number = 200

// where returns what a user looks up once: the disk of a volume and its location in sectors.
func (n *bench) where(name string) (disk string, start, size int64) {
	group := n.driver.pools[0].group
	report, err := group.Report(n.b.Context())
	testcheck.NoError(n, err)
	lv, _ := report.Find(name)
	for _, each := range n.driver.pools[0].system.Disks() {
		if each.Name == lv.Extents[0].PhysicalVolume {
			disk = each.Device
		}
	}
	return disk, (report.PhysicalVolumes[0].Start + lv.Extents[0].Start*report.ExtentSize) / 512, lv.Size / 512
}

func (n *bench) activate(name string) (device string, deactivate func()) {
	if hasMapper() {
		path := n.group + "/" + name
		n.run("lvm lvchange -ay " + path)
		device, err := n.driver.pools[0].group.Device(n.b.Context(), name)
		testcheck.NoError(n, err)
		return device, func() { n.run("lvm lvchange -an " + path) }
	}
	disk, start, size := n.where(name)
	n.run(fmt.Sprintf("addpart %s %d %d %d", disk, number, start, size))
	return disk + "p" + strconv.Itoa(number), func() { n.run(fmt.Sprintf("delpart %s %d", disk, number)) }
}

// The driver's calls.

func (n *bench) make(i, mebibytes int, fsType string) string {
	response, err := n.driver.Controller().CreateVolume(n.b.Context(), &csi.CreateVolumeRequest{
		Name: fmt.Sprintf("volume-%d", i), VolumeCapabilities: []*csi.VolumeCapability{as(fsType)},
		CapacityRange: &csi.CapacityRange{RequiredBytes: int64(mebibytes) << 20},
	})
	testcheck.NoError(n, err)
	return response.GetVolume().GetVolumeId()
}

func as(fsType string) *csi.VolumeCapability {
	capability := asFile()
	capability.GetMount().FsType = fsType
	return capability
}

func (n *bench) detach(id string) {
	_, err := n.driver.Controller().ControllerUnpublishVolume(n.b.Context(),
		&csi.ControllerUnpublishVolumeRequest{VolumeId: id})
	testcheck.NoError(n, err)
}

func (n *bench) delete(id string) {
	_, err := n.driver.Controller().DeleteVolume(n.b.Context(), &csi.DeleteVolumeRequest{VolumeId: id})
	testcheck.NoError(n, err)
}

func (n *bench) stageAs(id, fsType string, published map[string]string) {
	_, err := n.driver.Node(node, n.fs).NodeStageVolume(n.b.Context(), &csi.NodeStageVolumeRequest{
		VolumeId: id, StagingTargetPath: n.staging(id), VolumeCapability: as(fsType), PublishContext: published,
	})
	testcheck.NoError(n, err)
}

func (n *bench) unstage(id string) {
	_, err := n.driver.Node(node, n.fs).NodeUnstageVolume(n.b.Context(), &csi.NodeUnstageVolumeRequest{
		VolumeId: id, StagingTargetPath: n.staging(id),
	})
	testcheck.NoError(n, err)
}

func BenchmarkCreateDelete(b *testing.B) {
	n := newBench(b)
	n.compare(func(i int) { n.delete(n.make(i, 16, "ext4")) }, func(int) {
		n.lvcreate("bare", 16)
		n.lvremove("bare")
	})
}

// The driver also records the attachment.
func BenchmarkAttachDetach(b *testing.B) {
	n := newBench(b)
	id := n.make(0, 16, "ext4")
	n.lvcreate("bare", 16)
	n.compare(func(int) {
		n.publish(id)
		n.detach(id)
	}, func(int) {
		_, undo := n.activate("bare")
		undo()
	})
}

// BenchmarkStageUnstage formats and mounts a new volume.
func BenchmarkStageUnstage(b *testing.B) {
	n := newBench(b)
	id := n.make(0, 16, "ext4")
	published := n.publish(id)
	n.lvcreate("bare", 16)
	device, undo := n.activate("bare")
	defer undo()
	wipe := func(device string) { testcheck.NoError(n, os.WriteFile(device, make([]byte, 64<<10), 0)) }
	place := b.TempDir()
	n.compare(func(int) {
		wipe(published[blockcsi.DeviceKey])
		n.stageAs(id, "ext4", published)
		n.unstage(id)
	}, func(int) {
		wipe(device)
		n.run("mkfs.ext4 -q -E nodiscard -m0 " + device)
		n.run("mount " + device + " " + place)
		n.run("umount " + place)
	})
}

// BenchmarkExpand grows a mounted volume. It uses XFS, since ext4 may not grow everywhere.
func BenchmarkExpand(b *testing.B) {
	if _, err := exec.LookPath("mkfs.xfs"); err != nil {
		b.Skip(err)
	}
	const first, step = 300, 4 // MiB
	n := newBench(b)
	id := n.make(0, first, "xfs")
	n.stageAs(id, "xfs", n.publish(id))
	disks := n.driver.pools[0].system.Disks()
	n.lvcreate("bare", first, filepath.Join(n.dir, "lvm", "dev", disks[1].Name)) // so that both have room
	device, undo := n.activate("bare")
	n.run("mkfs.xfs -q " + device)
	place := b.TempDir()
	n.run("mount " + device + " " + place)
	size := int64(first)
	n.compare(func(int) {
		size += step
		grown := &csi.CapacityRange{RequiredBytes: size << 20}
		_, err := n.driver.Controller().ControllerExpandVolume(b.Context(),
			&csi.ControllerExpandVolumeRequest{VolumeId: id, CapacityRange: grown})
		testcheck.NoError(n, err)
		_, err = n.driver.Node(node, n.fs).NodeExpandVolume(b.Context(), &csi.NodeExpandVolumeRequest{
			VolumeId: id, VolumePath: n.staging(id), StagingTargetPath: n.staging(id), CapacityRange: grown,
			VolumeCapability: as("xfs"),
		})
		testcheck.NoError(n, err)
	}, func(int) {
		n.run(fmt.Sprintf("lvm lvextend -q -y -L +%dm %s/bare", step, n.group))
		if !hasMapper() {
			disk, _, sectors := n.where("bare")
			n.run(fmt.Sprintf("resizepart %s %d %d", disk, number, sectors))
		}
		n.run("xfs_growfs " + place)
	})
	n.run("umount " + place)
	undo()
}

// BenchmarkLife creates, uses and removes a volume.
func BenchmarkLife(b *testing.B) {
	n := newBench(b)
	place := b.TempDir()
	n.compare(func(i int) {
		id := n.make(i, 16, "ext4")
		n.stageAs(id, "ext4", n.publish(id))
		n.unstage(id)
		n.detach(id)
		n.delete(id)
	}, func(int) {
		n.lvcreate("bare", 16)
		device, undo := n.activate("bare")
		n.run("mkfs.ext4 -q -E nodiscard -m0 " + device)
		n.run("mount " + device + " " + place)
		n.run("umount " + place)
		undo()
		n.lvremove("bare")
	})
}
