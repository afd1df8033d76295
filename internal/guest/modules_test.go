//go:build linux

package guest

import (
	"slices"
	"testing"
)

func TestLoadOrderPutsDependenciesFirst(t *testing.T) {
	// As written by depmod: dependencies follow the module.
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
		t.Errorf("missing module: got %v", got)
	}
}
