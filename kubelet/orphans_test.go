package kubelet

import (
	"errors"
	"fmt"
	"testing"

	"github.com/volsim/volsim/internal/testcheck"
	"github.com/volsim/volsim/plugins/nodefs"
)

// countingFS counts what it was asked for and what it has listed.
type countingFS struct {
	nodefs.FS
	looks int
}

func (c *countingFS) Mounts() ([]nodefs.Mount, error) {
	all, err := c.FS.Mounts()
	c.looks += 1 + len(all)
	return all, err
}

func (c *countingFS) ReadDir(path string) ([]string, error) {
	names, err := c.FS.ReadDir(path)
	c.looks += 1 + len(names)
	return names, err
}

func (c *countingFS) IsMountPoint(path string) (bool, error) {
	c.looks++
	return c.FS.IsMountPoint(path)
}

// podsOnDisk is a kubelet's disk with so many pods on it, each with a volume that is mounted, and
// one more, "gone", that has the directories only.
func podsOnDisk(t *testing.T, pods int) (*Kubelet, *countingFS) {
	t.Helper()
	disk := &countingFS{FS: nodefs.NewMemory("/")}
	testcheck.NoError(t, disk.MkdirAll("/volume"))
	for i := range pods {
		at := fmt.Sprintf("/kubelet/pods/pod-%d/volumes/plugin/data/mount", i)
		testcheck.NoError(t, disk.MkdirAll(at))
		testcheck.NoError(t, disk.BindMount("/volume", at, false))
	}
	testcheck.NoError(t, disk.MkdirAll("/kubelet/pods/gone/volumes/plugin"))
	testcheck.NoError(t, disk.MkdirAll("/kubelet/pods/gone/volumeDevices/plugin"))
	return &Kubelet{cfg: Config{FS: disk, Root: "/kubelet"}}, disk
}

// TestRemovingAPodDirLooksAtThatPodOnly costs the same however many other pods there are.
func TestRemovingAPodDirLooksAtThatPodOnly(t *testing.T) {
	t.Parallel()
	var looks []int
	for _, pods := range []int{1, 100} {
		k, disk := podsOnDisk(t, pods)
		if err := k.removePodDir(t.Context(), "gone"); err != nil {
			t.Fatal(err)
		}
		if exists, err := disk.Exists("/kubelet/pods/gone"); exists || err != nil {
			t.Errorf("the directory is there: %v, %v", exists, err)
		}
		looks = append(looks, disk.looks)
	}
	if looks[0] != looks[1] {
		t.Errorf("%d looks beside 1 pod, %d beside 100", looks[0], looks[1])
	}
}

func TestADirOfAPodInWhichSomethingIsMountedStays(t *testing.T) {
	t.Parallel()
	k, disk := podsOnDisk(t, 1)
	if err := disk.Symlink("/nowhere", "/kubelet/pods/pod-0/a-link"); err != nil {
		t.Fatal(err)
	}
	if err := k.removePodDir(t.Context(), "pod-0"); !errors.Is(err, errStillMounted) {
		t.Errorf("removePodDir = %v; want %v", err, errStillMounted)
	}
	const mount = "/kubelet/pods/pod-0/volumes/plugin/data/mount"
	if mounted, err := disk.IsMountPoint(mount); !mounted || err != nil {
		t.Errorf("mounted: %v, %v", mounted, err)
	}
}
