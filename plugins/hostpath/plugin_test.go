package hostpath_test

import (
	"context"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volsim/volsim/internal/testcheck"
	"github.com/volsim/volsim/plugins"
	"github.com/volsim/volsim/plugins/hostpath"
	"github.com/volsim/volsim/plugins/nodefs"
	"github.com/volsim/volsim/sim"
	"github.com/volsim/volsim/sim/trace"
)

var ctx = context.Background()

// recorder records the calls that leave it.
type recorder struct {
	sim.Caller
	calls []trace.Record
}

func (r *recorder) Call(action trace.Action, effect func() trace.Outcome) trace.Outcome {
	out := r.Caller.Call(action, effect)
	r.calls = append(r.calls, trace.Record{Action: action, Outcome: out})
	return out
}

func (r *recorder) lines() []string {
	var lines []string
	for _, c := range r.calls {
		lines = append(lines, c.Action.String()+" "+c.Detail)
	}
	return lines
}

// disk is a plugin with its machine.
type disk struct {
	name    string
	machine func(t *testing.T) hostpath.Machine
}

var disks = []disk{
	{"memory", func(*testing.T) hostpath.Machine {
		return hostpath.Machine{FS: nodefs.NewMemory("/node-1"), Root: "/node-1"}
	}},
	{"real", func(t *testing.T) hostpath.Machine {
		root := t.TempDir()
		fs, err := nodefs.NewReal(root)
		testcheck.NoError(t, err)
		return hostpath.Machine{FS: fs, Root: root}
	}},
}

func wantText(t *testing.T, err error, want string) {
	t.Helper()
	if err == nil || err.Error() != want {
		t.Errorf("got error %v, want %q", err, want)
	}
}

func options(edit ...func(*plugins.ProvisionOptions)) plugins.ProvisionOptions {
	claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "c", UID: "u1"}}
	claim.Spec.Resources.Requests = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}
	opts := plugins.ProvisionOptions{Name: "pvc-u1", Claim: claim, ReclaimPolicy: corev1.PersistentVolumeReclaimDelete}
	for _, e := range edit {
		e(&opts)
	}
	return opts
}

func TestProvisionAndDelete(t *testing.T) {
	for _, d := range disks {
		t.Run(d.name, func(t *testing.T) {
			machine, calls := d.machine(t), &recorder{Caller: sim.DirectCaller()}
			p := hostpath.New(hostpath.Config{Caller: calls, Machine: machine, Provisioning: true})
			testcheck.NoError(t, p.CanProvision(options()))
			volume, err := p.Provision(ctx, options())
			testcheck.NoError(t, err)
			want := &corev1.PersistentVolume{
				ObjectMeta: metav1.ObjectMeta{
					Name: "pvc-u1", Annotations: map[string]string{"kubernetes.io/createdby": "hostpath-dynamic-provisioner"},
				},
				Spec: corev1.PersistentVolumeSpec{
					PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimDelete,
					AccessModes:                   []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
					Capacity:                      corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")},
					PersistentVolumeSource: corev1.PersistentVolumeSource{
						HostPath: &corev1.HostPathVolumeSource{Path: "/tmp/hostpath_pv/u1"},
					},
				},
			}
			if diff := cmp.Diff(want, volume); diff != "" {
				t.Errorf("volume (-want +got):\n%s", diff)
			}
			testcheck.NoError(t, machine.FS.WriteFile(machine.Root+"/tmp/hostpath_pv/u1/file", []byte("hello")))
			wantVolumes(t, machine, hostpath.Volume{Name: "pvc-u1", Path: "/tmp/hostpath_pv/u1", Files: []string{"file"}})

			spec := &plugins.Spec{PersistentVolume: volume}
			testcheck.NoError(t, p.CanDelete(spec))
			testcheck.NoError(t, p.Delete(ctx, spec))
			wantVolumes(t, machine)
			testcheck.NoError(t, p.Delete(ctx, spec)) // not there is success
			if diff := cmp.Diff([]string{
				"driver Provision kubernetes.io/host-path/pvc-u1 path=/tmp/hostpath_pv/u1",
				"driver Delete kubernetes.io/host-path/pvc-u1 path=/tmp/hostpath_pv/u1",
				"driver Delete kubernetes.io/host-path/pvc-u1 path=/tmp/hostpath_pv/u1",
			}, calls.lines()); diff != "" {
				t.Errorf("calls (-want +got):\n%s", diff)
			}
		})
	}
}

func wantVolumes(t *testing.T, machine hostpath.Machine, want ...hostpath.Volume) {
	t.Helper()
	got, err := machine.Volumes()
	testcheck.NoError(t, err)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("volumes (-want +got):\n%s", diff)
	}
}

func TestProvisionIsIdempotent(t *testing.T) {
	machine := disks[0].machine(t)
	p := hostpath.New(hostpath.Config{Caller: sim.DirectCaller(), Machine: machine, Provisioning: true})
	first, err := p.Provision(ctx, options())
	testcheck.NoError(t, err)
	second, err := p.Provision(ctx, options())
	testcheck.NoError(t, err)
	if diff := cmp.Diff(first, second); diff != "" {
		t.Errorf("second volume (-first +second):\n%s", diff)
	}
	wantVolumes(t, machine, hostpath.Volume{Name: "pvc-u1", Path: "/tmp/hostpath_pv/u1"})
}

func TestProvisionRejects(t *testing.T) {
	machine := disks[0].machine(t)
	off := hostpath.New(hostpath.Config{Caller: sim.DirectCaller(), Machine: machine})
	wantText(t, off.CanProvision(options()), `provisioning in volume plugin "kubernetes.io/host-path" is disabled`)

	p := hostpath.New(hostpath.Config{Caller: sim.DirectCaller(), Machine: machine, Provisioning: true})
	block := corev1.PersistentVolumeBlock
	_, err := p.Provision(ctx, options(func(o *plugins.ProvisionOptions) { o.Claim.Spec.VolumeMode = &block }))
	wantText(t, err, "kubernetes.io/host-path does not support block volume provisioning")
	for _, uid := range []types.UID{"", ".", "..", "a/b", "../u1"} {
		if _, err := p.Provision(ctx, options(func(o *plugins.ProvisionOptions) { o.Claim.UID = uid })); err == nil {
			t.Errorf("a volume for a claim with the UID %q was made", uid)
		}
	}
	wantVolumes(t, machine)
}

func TestDeleteOnlyBelowTmp(t *testing.T) {
	tests := []struct {
		path    string
		deleted bool
	}{
		{"/tmp/x", true},
		{"/tmp//x/", true},
		{"/tmp/x/y", true},
		{"/tmp", false},
		{"/tmp/", false},
		{"/tmp/.", false},
		{"/tmp/..", false},
		{"/tmp/../data/x", false},
		{"/tmp/x/../../data", false},
		{"/data/tmp/x", false}, // upstream's pattern takes it
		{"/tmpx/y", false},
		{"tmp/x", false},
		{"", false},
	}
	for _, tt := range tests {
		t.Run(tt.path, func(t *testing.T) {
			machine := disks[0].machine(t)
			for _, dir := range []string{"/tmp/x/y", "/data/tmp/x", "/tmpx/y"} {
				testcheck.NoError(t, machine.FS.MkdirAll(machine.Root+dir))
			}
			before := everything(t, machine)
			p := hostpath.New(hostpath.Config{Caller: sim.DirectCaller(), Machine: machine})
			err := p.Delete(ctx, &plugins.Spec{PersistentVolume: at(tt.path)})
			if tt.deleted {
				testcheck.NoError(t, err)
				if there, _ := machine.FS.Exists(machine.Root + tt.path); there {
					t.Error("it is still there")
				}
				return
			}
			wantText(t, err, "host_path deleter only supports /tmp/.+ but received provided "+tt.path)
			if diff := cmp.Diff(before, everything(t, machine)); diff != "" {
				t.Errorf("what is on the disk (-before +after):\n%s", diff)
			}
		})
	}
}

// everything lists the files of a machine's disk.
func everything(t *testing.T, machine hostpath.Machine) []string {
	t.Helper()
	var all []string
	var walk func(dir string)
	walk = func(dir string) {
		names, err := machine.FS.ReadDir(dir)
		testcheck.NoError(t, err)
		for _, name := range names {
			all = append(all, dir+"/"+name)
			walk(dir + "/" + name)
		}
	}
	walk(machine.Root)
	return all
}

func at(path string) *corev1.PersistentVolume {
	v := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "v"}}
	v.Spec.HostPath = &corev1.HostPathVolumeSource{Path: path}
	return v
}

func TestDeleteKeepsMounts(t *testing.T) {
	fs := nodefs.NewMemory("/")
	machine := hostpath.Machine{FS: fs, Root: "/"}
	testcheck.NoError(t, fs.MkdirAll("/tmp/x/mnt"))
	tree := nodefs.NewTree()
	testcheck.NoError(t, fs.MountTree(tree, "disk", "/tmp/x/mnt", false))
	testcheck.NoError(t, fs.WriteFile("/tmp/x/mnt/file", []byte("not of the volume")))
	p := hostpath.New(hostpath.Config{Caller: sim.DirectCaller(), Machine: machine})
	if err := p.Delete(ctx, &plugins.Spec{PersistentVolume: at("/tmp/x")}); !errors.Is(err, nodefs.ErrMounted) {
		t.Errorf("got error %v, want %v", err, nodefs.ErrMounted)
	}
	if diff := cmp.Diff([]string{"file"}, tree.Files()); diff != "" {
		t.Errorf("files of what is mounted (-want +got):\n%s", diff)
	}
}

func TestCanSupport(t *testing.T) {
	p := hostpath.New(hostpath.Config{Caller: sim.DirectCaller()})
	inline := &corev1.Volume{VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/a"}}}
	tests := []struct {
		name string
		spec plugins.Spec
		want string // the volume's name; "": not supported
	}{
		{"a volume of a pod", plugins.Spec{Volume: inline}, "/a"},
		{"a PersistentVolume", plugins.Spec{PersistentVolume: at("/b")}, "/b"},
		{"another volume of a pod", plugins.Spec{Volume: &corev1.Volume{}}, ""},
		{"another PersistentVolume", plugins.Spec{PersistentVolume: &corev1.PersistentVolume{}}, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			name, err := p.VolumeName(&tt.spec)
			if got := p.CanSupport(&tt.spec); got != (tt.want != "") || got != (err == nil) || name != tt.want {
				t.Errorf("CanSupport = %v, VolumeName = %q, %v; want name %q", got, name, err, tt.want)
			}
		})
	}
	wantText(t, p.CanDelete(&plugins.Spec{PersistentVolume: &corev1.PersistentVolume{}}),
		"spec.PersistentVolumeSource.HostPath is nil")
}
