package lvm

import (
	"context"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/volsim/volsim/internal/lvm2"
)

func TestEachNodeHasItsOwnGroup(t *testing.T) {
	if got := groupName("node-1.example"); got != "volsim-node-1.example" {
		t.Errorf("an ordinary node's is %q", got)
	}
	taken := regexp.MustCompile(`^[A-Za-z0-9_+.][A-Za-z0-9_+.-]{0,62}$`)
	long := strings.Repeat("x", nodeNameMax)
	seen := map[string]string{}
	for _, node := range []string{
		"", "a", "A", "a b", "a_b", "a+b", "a/b", "ä", "é", ".", "..", "-", "a-b", "a--b", long, long + "x", long + "y",
		"a b" + long,
		groupName(long + "x"), strings.TrimPrefix(groupName(long+"x"), groupPrefix),
		strings.TrimPrefix(groupName("a b"), groupPrefix),
	} {
		name := groupName(node)
		if !taken.MatchString(name) {
			t.Errorf("node %q has %q, which LVM may not take", node, name)
		}
		if other, twice := seen[name]; twice {
			t.Errorf("nodes %q and %q both have %q", node, other, name)
		}
		seen[name] = node
	}
}

// Disks with a volume group of another name are not lost: the error asks for the name, which can be
// set.
func TestGroupOfAnotherName(t *testing.T) {
	needLVM(t)
	dir := plainDir(t)
	cfg := NodeConfig{
		Name: "node/" + groupIn(dir), LVM: lvm2.Config{Directory: filepath.Join(dir, "lvm"), SystemID: "volsim-test"},
		Group: groupIn(dir), Files: []File{{Path: filepath.Join(dir, "disk"), SizeBytes: 64 << 20}},
	}
	d, err := New(t.Context(), Config{Nodes: []NodeConfig{cfg}})
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	named := cfg.Group
	cfg.Group = ""
	d, err = New(t.Context(), Config{Nodes: []NodeConfig{cfg}})
	if err == nil {
		t.Error("it was opened without its name")
		_ = d.Close()
	} else if !strings.Contains(err.Error(), named) {
		t.Errorf("the error does not contain the name: %v", err)
	}
	cfg.Group = named
	if d, err = New(t.Context(), Config{Nodes: []NodeConfig{cfg}}); err != nil {
		t.Fatal(err)
	}
	if err := d.Destroy(context.Background()); err != nil {
		t.Fatal(err)
	}
	cfg.Group, cfg.Files[0].Path = "", cfg.Files[0].Path+"-2"
	if d, err = New(t.Context(), Config{Nodes: []NodeConfig{cfg}}); err != nil {
		t.Fatal(err)
	}
	if got, want := d.pools[0].group.Name(), groupName(cfg.Name); got != want {
		t.Errorf("the group is %q, want %q", got, want)
	}
	if err := d.Destroy(context.Background()); err != nil {
		t.Fatal(err)
	}
}
