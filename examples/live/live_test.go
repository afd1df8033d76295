package live

import "testing"

func TestRandomNamesAreHidden(t *testing.T) {
	c := &Cluster{dir: "/tmp/lesson-1"}
	got := c.hideNames("/dev/loop12p1 /tmp/lesson-1/pods/01234567-89ab-cdef-0123-456789abcdef/vol-0123456789abcdef 64M\n")
	if want := "/dev/loopNp1 ./pods/<uid>/vol-<hash> 64M\n"; got != want {
		t.Errorf("text %q, want %q", got, want)
	}
}
