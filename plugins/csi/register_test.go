package csi_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	csispec "github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/volsim/volsim/internal/testcheck"
	"github.com/volsim/volsim/plugins"
	"github.com/volsim/volsim/plugins/csi"
	"github.com/volsim/volsim/sim"
	"github.com/volsim/volsim/sim/trace"
)

// drawn lets a chooser pick the next task.
type drawn struct{ sim.Chooser }

func (s drawn) Decide(d *sim.Decision) sim.Move { return sim.Move{Option: s.Choose(d.Len())} }

// refusing has the API server reject a request whenever it is made.
type refusing string

func (r refusing) Decide(d *sim.Decision) sim.Move {
	if call, pending := d.Task(0).Pending(); pending && call.Verb+" "+call.Object == string(r) {
		return sim.Move{Fault: sim.Fault{Kind: sim.FaultRefused}}
	}
	return sim.Move{}
}

// announced is a driver with a socket.
func announced(socket string, versions ...string) plugins.Registration {
	return plugins.Registration{
		Socket: "/registry/" + socket, Type: "CSIPlugin", Name: stubName, Endpoint: "/plugins/" + socket, Versions: versions,
	}
}

// serve serves a driver at its endpoint.
func (w *world) serve(r plugins.Registration) (*stub, *faulty) {
	s := &stub{capabilities: []csispec.NodeServiceCapability_RPC_Type{csispec.NodeServiceCapability_RPC_STAGE_UNSTAGE_VOLUME}}
	conn := &faulty{ClientConnInterface: csi.Direct(func(g grpc.ServiceRegistrar) { csispec.RegisterNodeServer(g, s) })}
	w.sockets[r.Endpoint], w.driver = conn, stubName
	return s, conn
}

func (w *world) register(r plugins.Registration) error {
	w.Helper()
	return w.do(func(ctx context.Context) error { return w.plugin.RegisterPlugin(ctx, r) })
}

func (w *world) deregister(r plugins.Registration) error {
	w.Helper()
	return w.do(func(ctx context.Context) error { return w.plugin.DeregisterPlugin(ctx, r) })
}

// known reports whether the plugin finds a driver.
func (w *world) known() bool {
	w.Helper()
	err := w.volume("h-1").setUp()
	return err == nil || !strings.Contains(err.Error(), "not found in the list of registered CSI drivers")
}

// driverNames are the names of the CSINode's drivers.
func (w *world) driverNames() []string {
	var names []string
	for _, d := range w.registered() {
		names = append(names, d.Name)
	}
	return names
}

func TestValidate(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		versions []string
		want     string // of the error, after what it begins with
	}{
		{[]string{"v1.0.0"}, ""},
		{[]string{"0.3.0"}, `None of the versions specified ["0.3.0"] are supported. err=highest supported version reported is 0.3.0, must be v1.x`},
		{[]string{"0.2.0"}, `None of the versions specified ["0.2.0"] are supported. err=highest supported version reported is 0.2.0, must be v1.x`},
		{
			[]string{"0.2.0", "v0.3.0"},
			`None of the versions specified ["0.2.0" "v0.3.0"] are supported. err=highest supported version reported is 0.3.0, must be v1.x`,
		},
		{[]string{"0.2.0", "v1.0.0"}, ""},
		{[]string{"0.2.0", "v1.2.3"}, ""},
		{[]string{"v1.2.3", "v0.3.0"}, ""},
		{[]string{"v1.2.3", "v0.3.0", "2.0.1"}, ""},
		{[]string{"v1.2.3", "4.9.12", "v0.3.0", "2.0.1"}, ""},
		{[]string{"v1.2.3", "boo", "v0.3.0", "2.0.1"}, ""},
		{
			[]string{"4.9.12", "2.0.1"},
			`None of the versions specified ["4.9.12" "2.0.1"] are supported. err=could not find a highest supported version from versions ([4.9.12 2.0.1]) reported: <nil>`,
		},
		{nil, "Plugin returned an empty list for supported versions"},
		{
			[]string{"var", "boo", "foo"},
			`None of the versions specified ["var" "boo" "foo"] are supported. err=could not find a highest supported version from versions ([var boo foo]) reported: could not parse "var" as version`,
		},
	} {
		w := newWorld(t)
		r := announced("a.sock", tt.versions...)
		want := ""
		if tt.want != "" {
			want = `validation failed for CSI Driver stub.example.com at endpoint /plugins/a.sock: kubernetes.io/csi: ` +
				`ValidatePlugin for CSI driver "stub.example.com" failed. ` + tt.want
		}
		if err := w.plugin.ValidatePlugin(r); text(err) != want {
			t.Errorf("versions %q: error\n%s\nwant\n%s", tt.versions, text(err), want)
		}
		w.serve(r)
		if err := w.register(r); (err != nil) != (tt.want != "") {
			t.Errorf("versions %q: registered with error %v, want one: %v", tt.versions, err, tt.want != "")
		}
	}
}

func text(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

func TestValidateAgainstRegisteredDriver(t *testing.T) {
	t.Parallel()
	const taken = "Another driver with the same name is already registered with a higher supported version: "
	for _, tt := range []struct {
		name          string
		first, second []string
		other         bool // the second has another name
		want          string
	}{
		{"of another name", []string{"v1.0.0"}, []string{"v1.0.0"}, true, ""},
		{"of the same version", []string{"v1.0.0"}, []string{"v1.0.0"}, false, taken + `"1.0.0"`},
		{"of an older version", []string{"v1.0.0", "v1.2.0"}, []string{"v1.1.0"}, false, taken + `"1.2.0"`},
		{"of a newer version", []string{"v0.3.0", "v0.2.0", "v1.0.0"}, []string{"v1.0.1"}, false, ""},
	} {
		w := newWorld(t)
		first, second := announced("a.sock", tt.first...), announced("b.sock", tt.second...)
		w.serve(first)
		w.NoError(w.register(first))
		if tt.other {
			second.Name += "2"
		}
		w.serve(second)
		if err := w.plugin.ValidatePlugin(second); !strings.HasSuffix(text(err), tt.want) || (err == nil) != (tt.want == "") {
			t.Errorf("%s: error %v, want %q", tt.name, err, tt.want)
		}
		err := w.register(second)
		if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(text(err),
			`RegisterPlugin for CSI driver "stub.example.com" failed. `+tt.want) {
			t.Errorf("%s: registered with error %v, want %q", tt.name, err, tt.want)
		}
		if !w.known() {
			t.Errorf("%s: the driver is no longer registered", tt.name)
		}
	}
}

func TestRegister(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	r := announced("a.sock", "1.0.0")
	w.serve(r)
	w.NoError(w.register(r))
	testcheck.Equal(w, "calls of the driver", []string{"NodeGetCapabilities", "NodeGetInfo"}, w.calls(trace.KindDriver))
	testcheck.Equal(w, "requests", []string{"get", "patch", "get!", "get", "create", "update"}, w.calls(trace.KindAPI))
	w.stands(pairs{stubName: "id-1"}, nil, []storagev1.CSINodeDriver{entry(stubName, "id-1", nil)})
	w.ownCSINode()
	if !w.known() {
		t.Error("the driver is not known")
	}
}

// TestRegisterFails has each step of a registration fail whenever it is tried: afterwards the
// driver is registered neither here nor in the cluster.
func TestRegisterFails(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		meddle func(w *world, r plugins.Registration, conn *faulty)
		want   string
	}{
		{"no answer", func(w *world, r plugins.Registration, _ *faulty) { delete(w.sockets, r.Endpoint) }, "broken pipe"},
		{"NodeGetCapabilities", func(_ *world, _ plugins.Registration, conn *faulty) {
			conn.faults = []fault{{method: "NodeGetCapabilities", err: coded(codes.Unavailable)}}
		}, "NodeGetCapabilities: rpc error: code = Unavailable desc = scripted"},
		{"NodeGetInfo", func(_ *world, _ plugins.Registration, conn *faulty) {
			conn.faults = []fault{{method: "NodeGetInfo", err: coded(codes.Internal)}}
		}, "NodeGetInfo: rpc error: code = Internal desc = scripted"},
		{"the Node", func(w *world, _ plugins.Registration, _ *faulty) {
			w.patch(func(n *corev1.Node) { n.Annotations = pairs{nodeIDs: `{"stub.example.com": 5}`} })
		}, "error updating Node object with CSI driver node info: error updating node: timed out"},
	} {
		w := newWorld(t)
		r := announced("a.sock", "1.0.0")
		_, conn := w.serve(r)
		w.csiNode("", entry(stubName, "from before", nil), entry(otherDriver, "x", nil))
		tt.meddle(w, r, conn)
		if err := w.register(r); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: error %v, want %q", tt.name, err, tt.want)
		}
		if w.known() {
			t.Errorf("%s: the driver is known", tt.name)
		}
		testcheck.Equal(w, tt.name+": drivers", []string{otherDriver}, w.driverNames())
	}
}

// TestNewerVersionReplaces registers a newer driver of the same name, and removes the older one's
// socket.
func TestNewerVersionReplaces(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	older, newer := announced("a.sock", "1.0.0"), announced("b.sock", "1.1.0")
	before, _ := w.serve(older)
	after, _ := w.serve(newer)
	w.NoError(w.register(older))
	w.NoError(w.register(newer))
	w.NoError(w.deregister(older))
	d := w.volume("h-1")
	w.attachment("h-1", func(a *storagev1.VolumeAttachment) { a.Status.Attached = true })
	w.NoError(d.mountDevice())
	if len(before.requests) != 0 || len(after.requests) != 1 {
		t.Errorf("the older one was asked %d times, the newer one %d times", len(before.requests), len(after.requests))
	}
	testcheck.Equal(w, "drivers", []string{stubName}, w.driverNames())
	w.NoError(w.deregister(newer))
	testcheck.Equal(w, "drivers", nil, w.driverNames())
}

func TestDeregister(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	r := announced("a.sock", "1.0.0")
	w.serve(r)
	w.NoError(w.register(r))
	w.addDriver(entry(otherDriver, "x", nil))
	w.NoError(w.deregister(r))
	w.stands(nil, nil, []storagev1.CSINodeDriver{entry(otherDriver, "x", nil)})
	w.class("SetUp", w.volume("h-1").setUp(), plugins.Transient)
	before := len(w.calls(trace.KindAPI))
	w.NoError(w.deregister(r))
	testcheck.Equal(w, "requests after it is deregistered", []string{"get", "get"}, w.calls(trace.KindAPI)[before:])
	w.NoError(w.User.CoreV1().Nodes().Delete(t.Context(), node1, metav1.DeleteOptions{}))
	w.NoError(w.deregister(r)) // of a node that is gone
}

// TestFailedDeregisterCanBeRepeated rejects the update: the driver is removed here at once, and
// from the cluster later.
func TestFailedDeregisterCanBeRepeated(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	r := announced("a.sock", "1.0.0")
	w.serve(r)
	w.NoError(w.register(r))
	w.Host.SetStrategy(refusing("update csinodes/node-1"))
	began := w.Host.Now()
	err := w.deregister(r)
	if err == nil || !strings.HasPrefix(err.Error(),
		"kubernetes.io/csi: Error uninstalling CSI driver: error uninstalling CSI driver from CSINode object") {
		t.Errorf("error %v, want one", err)
	}
	if took := w.Host.Now().Sub(began); took != 310*time.Millisecond {
		t.Errorf("it took %v, want the pauses between four attempts", took)
	}
	if w.known() {
		t.Error("the driver is known")
	}
	testcheck.Equal(w, "drivers", []string{stubName}, w.driverNames())
	w.Host.SetStrategy(sim.NewReplayStrategy(nil))
	w.NoError(w.deregister(r))
	w.stands(nil, nil, nil)
}

// TestRegistrationsOfOneNameAreSerialized starts several operations concurrently.
func TestRegistrationsOfOneNameAreSerialized(t *testing.T) {
	t.Parallel()
	for seed := range uint64(50) {
		w := newWorld(t)
		older, newer := announced("a.sock", "1.0.0"), announced("b.sock", "1.1.0")
		w.serve(older)
		w.serve(newer)
		w.NoError(w.register(older))
		w.Host.SetStrategy(drawn{sim.NewSeeded(seed)})
		comes := w.begin(func(ctx context.Context) error { return w.plugin.RegisterPlugin(ctx, newer) })
		goes := w.begin(func(ctx context.Context) error { return w.plugin.DeregisterPlugin(ctx, older) })
		refreshed := w.begin(func(ctx context.Context) error { return w.plugin.Refresh(ctx, stubName) })
		w.Run()
		if !comes.done || !goes.done || !refreshed.done || comes.err != nil || goes.err != nil || refreshed.err != nil {
			t.Fatalf("seed %d: %+v, %+v, %+v", seed, comes, goes, refreshed)
		}
		if !w.known() || !slices.Equal(w.driverNames(), []string{stubName}) {
			t.Fatalf("seed %d: the newer driver is known: %v; drivers %q\n%s", seed, w.known(), w.driverNames(),
				w.Host.Log().Text())
		}
	}
}

// TestDriverDeregisteredDuringMount deregisters a driver while it stages a volume, which then
// succeeds or fails.
func TestDriverDeregisteredDuringMount(t *testing.T) {
	t.Parallel()
	for _, answers := range []bool{true, false} {
		w := newWorld(t)
		r := announced("a.sock", "1.0.0")
		_, conn := w.serve(r)
		w.NoError(w.register(r))
		d := w.volume("h-1")
		w.attachment("h-1", func(a *storagev1.VolumeAttachment) { a.Status.Attached = true })
		mount := w.begin(func(ctx context.Context) error {
			return d.plugin.MountDevice(ctx, d.spec, d.globalMount(), plugins.MountOptions{})
		})
		w.upTo("driver NodeStageVolume")
		w.process.Spawn("deregistration", func(ctx context.Context) { _ = w.plugin.DeregisterPlugin(ctx, r) })
		if !answers {
			conn.faults = []fault{{method: "NodeStageVolume", err: coded(codes.Unavailable)}}
		}
		w.Run()
		if answers {
			w.NoError(mount.err)
		} else {
			w.class("MountDevice", mount.err, plugins.Uncertain)
		}
		w.class("SetUp", d.setUp(), plugins.Transient)
		w.class("UnmountDevice", d.unmountDevice(), plugins.Transient)
		w.NoError(w.register(r))
		w.NoError(d.mountDevice())
		w.NoError(d.setUp())
	}
}
