//go:build linux

package guest

import (
	"slices"
	"testing"
)

func TestModulesComeAfterWhatTheyNeed(t *testing.T) {
	// As depmod writes it: what is needed stands behind what needs it.
	const dep = `kernel/md/dm-thin-pool.ko: kernel/md/dm-bio-prison.ko kernel/md/dm-bufio.ko kernel/md/dm-mod.ko
kernel/md/dm-bio-prison.ko:
kernel/md/dm-bufio.ko: kernel/md/dm-mod.ko
kernel/md/dm-mod.ko:
kernel/fs/other.ko:
`
	got, err := loadOrder(dep, []string{"dm-mod", "dm_thin_pool"})
	want := []string{"kernel/md/dm-mod.ko", "kernel/md/dm-bufio.ko", "kernel/md/dm-bio-prison.ko", "kernel/md/dm-thin-pool.ko"}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("got %v, %v; want %v", got, err, want)
	}
	if got, err := loadOrder(dep, []string{"dm-none"}); err == nil {
		t.Errorf("a module that is not there: got %v", got)
	}
}
