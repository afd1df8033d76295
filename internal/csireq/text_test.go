package csireq_test

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	"github.com/volsim/volsim/internal/arrayhealth"
	"github.com/volsim/volsim/internal/blockcsi/health"
	"github.com/volsim/volsim/internal/csireq"
	"github.com/volsim/volsim/plugins/array"
	"github.com/volsim/volsim/plugins/loop"
	"github.com/volsim/volsim/plugins/nodefs"
)

// A service is a service of a driver.
type service struct {
	name   string
	server any
	desc   grpc.ServiceDesc
}

func services(t *testing.T) []service {
	t.Helper()
	dir := t.TempDir()
	driver, err := loop.New(loop.Config{Dir: filepath.Join(dir, "images")}) // needs no root
	if err != nil {
		t.Fatal(err)
	}
	root, err := nodefs.NewReal(filepath.Join(dir, "root"))
	if err != nil {
		t.Fatal(err)
	}
	block, disks := health.New(driver.Driver, health.Config{}), array.New(array.Config{})
	all := arrayhealth.New(disks)
	return []service{
		{"loop", block.Controller(), csi.Controller_ServiceDesc},
		{"loop", driver.GroupController(), csi.GroupController_ServiceDesc},
		{"loop", block.Node("node-1", root), csi.Node_ServiceDesc},
		{"array", all.Controller(), csi.Controller_ServiceDesc},
		{"array", disks.GroupController(), csi.GroupController_ServiceDesc},
		{"array", all.Node("node-1", nodefs.NewMemory("/")), csi.Node_ServiceDesc},
	}
}

// call calls a method with a request.
func (s service) call(t *testing.T, method grpc.MethodDesc, request proto.Message) error {
	t.Helper()
	_, err := method.Handler(s.server, t.Context(), func(into any) error {
		proto.Merge(into.(proto.Message), request)
		return nil
	}, nil)
	return err
}

// newRequest returns an empty request of a method.
func (s service) newRequest(t *testing.T, method grpc.MethodDesc) proto.Message {
	t.Helper()
	found, err := protoregistry.GlobalFiles.FindDescriptorByName(protoreflect.FullName(s.desc.ServiceName + "." + method.MethodName))
	if err != nil {
		t.Fatal(err)
	}
	kind, err := protoregistry.GlobalTypes.FindMessageByName(found.(protoreflect.MethodDescriptor).Input().FullName())
	if err != nil {
		t.Fatal(err)
	}
	return kind.New().Interface()
}

// eachText calls visit once for each text field of a message and of the messages in it, after setting it to text.
func eachText(message protoreflect.Message, text func(field string) string, visit func(field string)) {
	fields := message.Descriptor().Fields()
	for i := range fields.Len() {
		field := fields.Get(i)
		value := message.NewField(field)
		switch {
		case field.IsMap():
			continue
		case field.Kind() == protoreflect.StringKind:
			one := protoreflect.ValueOfString(text(string(field.Name())))
			if field.IsList() {
				value.List().Append(one)
			} else {
				value = one
			}
			message.Set(field, value)
			visit(string(field.Name()))
		case field.Kind() == protoreflect.MessageKind:
			inner := value
			if field.IsList() {
				inner = value.List().AppendMutable()
			}
			message.Set(field, value)
			eachText(inner.Message(), text, visit)
		}
		message.Clear(field)
	}
}

// TestCallsRefuseImpossibleTexts sets each text of each request, one at a time.
func TestCallsRefuseImpossibleTexts(t *testing.T) {
	for what, text := range map[string]func(field string) string{
		"zero byte": func(string) string { return "/a\x00b" },
		"too long":  func(string) string { return "/" + strings.Repeat("a/", 2048) },
		"long element of a path": func(field string) string {
			if strings.HasSuffix(field, "_path") {
				return "/" + strings.Repeat("a", 256)
			}
			return "\x1b" // a control character elsewhere
		},
	} {
		for _, s := range services(t) {
			for _, method := range s.desc.Methods {
				request := s.newRequest(t, method)
				if status.Code(s.call(t, method, request)) == codes.Unimplemented {
					continue
				}
				eachText(request.ProtoReflect(), text, func(field string) {
					err := s.call(t, method, request)
					if status.Code(err) != codes.InvalidArgument || !strings.Contains(err.Error(), field) || len(err.Error()) > 200 {
						t.Errorf("%s %s: %s: %s: got %.300v, want InvalidArgument that names the field", s.name, method.MethodName, what, field, err)
					}
				})
			}
		}
	}
}

func TestTextsOfTheLargestSizeAreAccepted(t *testing.T) {
	long := strings.Repeat("a", 128)
	element := "/" + strings.Repeat("a", 255)
	for _, request := range []proto.Message{
		&csi.CreateVolumeRequest{Name: long},
		&csi.CreateVolumeRequest{Name: "tabs\tand\nlines are allowed in names: ünïcode"},
		&csi.ControllerPublishVolumeRequest{VolumeId: long + long, NodeId: long + long},
		&csi.NodeStageVolumeRequest{StagingTargetPath: strings.Repeat(element, 15) + "/" + long},
		&csi.NodeStageVolumeRequest{StagingTargetPath: "/path\nwith a line"},
	} {
		if err := csireq.CheckText(request); err != nil {
			t.Errorf("%.100v: %v", request, err)
		}
	}
}

func TestMountFlags(t *testing.T) {
	features := csireq.Features{}
	capability := func(flags ...string) *csi.VolumeCapability {
		return &csi.VolumeCapability{
			AccessType: &csi.VolumeCapability_Mount{Mount: &csi.VolumeCapability_MountVolume{MountFlags: flags}},
			AccessMode: &csi.VolumeCapability_AccessMode{Mode: csi.VolumeCapability_AccessMode_SINGLE_NODE_WRITER},
		}
	}
	label := `context="system_u:object_r:container_file_t:s0:c1,c2"`
	for _, test := range []struct {
		flags []string
		want  string // of the error; "" for none
	}{
		{flags: nil},
		{flags: []string{"noatime", "suid", "dev", "exec", "defaults", "commit=60", label}},
		{flags: []string{"noatime,nodiratime"}},
		{flags: []string{strings.Repeat("a", 4095)}},
		{[]string{strings.Repeat("a", 4000), strings.Repeat("b", 95)}, "mount_flags has 4096 bytes"},
		{[]string{"no\x00atime"}, "control character"},
		{[]string{"noatime\n"}, "control character"},
		{[]string{"bind"}, `mount flag "bind"`},
		{[]string{"noatime,remount"}, `mount flag "remount"`},
		{[]string{"loop=/dev/loop0"}, `mount flag "loop"`},
		{[]string{"X-mount.subdir=a"}, `mount flag "X-mount.subdir"`},
		{[]string{`"a`, `b",remount`}, "unbalanced quotation mark"},
		{[]string{"ro", "rw"}, "mutually exclusive"},
		{[]string{"rw,ro"}, "mutually exclusive"},
	} {
		err := features.Check(capability(test.flags...))
		if test.want == "" && err != nil {
			t.Errorf("%.100q: %v", test.flags, err)
		}
		if test.want != "" && (status.Code(err) != codes.InvalidArgument || !strings.Contains(err.Error(), test.want)) {
			t.Errorf("%.100q: got %v, want InvalidArgument with %q", test.flags, err, test.want)
		}
	}
	if !csireq.IsReadOnly(capability("noatime,ro")) {
		t.Error("noatime,ro is not read-only")
	}
	if got := csireq.MountFlags(capability("a,b", label, "ro")); len(got) != 4 || got[2] != label {
		t.Errorf("flags %q", got)
	}
}

func BenchmarkCheckText(b *testing.B) {
	request := &csi.NodeStageVolumeRequest{
		VolumeId: "vol-0123456789abcdef", StagingTargetPath: "/var/lib/kubelet/plugins/kubernetes.io/csi/staging",
		VolumeCapability: &csi.VolumeCapability{
			AccessType: &csi.VolumeCapability_Mount{Mount: &csi.VolumeCapability_MountVolume{FsType: "ext4"}},
		},
	}
	for b.Loop() {
		if err := csireq.CheckText(request); err != nil {
			b.Fatal(err)
		}
	}
}

// FuzzMountFlags checks that accepted flags keep their meaning when they are joined and split again.
func FuzzMountFlags(f *testing.F) {
	f.Add("noatime,nodiratime", "ro")
	f.Add(`context="a:b,c"`, "X-mount.subdir=a")
	f.Add("remount", `"`)
	f.Fuzz(func(t *testing.T, first, second string) {
		capability := &csi.VolumeCapability{
			AccessType: &csi.VolumeCapability_Mount{Mount: &csi.VolumeCapability_MountVolume{MountFlags: []string{first, second}}},
			AccessMode: &csi.VolumeCapability_AccessMode{Mode: csi.VolumeCapability_AccessMode_SINGLE_NODE_WRITER},
		}
		if (csireq.Features{}).Check(capability) != nil {
			return
		}
		flags := csireq.MountFlags(capability)
		joined := strings.Join(flags, ",")
		if len(joined) > 4095 || strings.ContainsAny(joined, "\x00\n") {
			t.Fatalf("accepted %q and %q as %q", first, second, flags)
		}
		capability.GetMount().MountFlags = []string{joined} // as mount(8) receives them
		if err := (csireq.Features{}).Check(capability); err != nil {
			t.Fatalf("accepted %q and %q, but not their combination: %v", first, second, err)
		}
		if again := csireq.MountFlags(capability); !slices.Equal(flags, again) {
			t.Fatalf("%q and %q are %q, and %q when they are joined", first, second, flags, again)
		}
	})
}
