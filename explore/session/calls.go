package session

import (
	"fmt"
	"slices"
	"strings"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
)

// requestVerbs are the verbs of API requests.
var requestVerbs = []string{"create", "get", "list", "watch", "update", "patch", "delete", "deletecollection"}

// subresources are the subresources to which the components of a world send requests.
var subresources = []string{"binding", "eviction", "finalize", "scale", "status", "token"}

// pluginCalls are the calls of plugins, of the node's disk and of its volume groups, which CSI does not
// define.
var pluginCalls = []string{
	"BindDevice", "BindSubPath", "ChangeOwnership", "CreateLogicalVolume", "Delete", "EnsureVolumeGroup", "ExtendLogicalVolume",
	"FinishLogicalVolume", "LinkDevice", "LinkFiles", "LockDevice", "MakeSubPath", "Provision", "Recycle",
	"RemoveLogicalVolume", "RemoveSubPaths", "RemoveVolumeGroup", "ReplaceFiles", "SetUp", "TearDown", "UnbindDevice",
	"UnbindSubPath", "UnlinkDevice", "UnlockDevice", "WriteFiles",
}

// driverCalls returns the verbs of driver calls, sorted.
func driverCalls() []string {
	all := slices.Clone(pluginCalls)
	for _, service := range []grpc.ServiceDesc{csi.Identity_ServiceDesc, csi.Controller_ServiceDesc, csi.Node_ServiceDesc} {
		for _, method := range service.Methods {
			all = append(all, method.MethodName)
		}
	}
	slices.Sort(all)
	return all
}

// Calls returns the verbs of the calls that an operation "until" knows. A verb of a request may
// have a subresource: "update/status".
func Calls() []string { return slices.Concat(requestVerbs, driverCalls()) }

// checkCall returns an error for a verb that no call has.
func checkCall(verb string) error {
	request, subresource, within := strings.Cut(verb, "/")
	switch {
	case !within && slices.Contains(Calls(), verb):
		return nil
	case within && slices.Contains(requestVerbs, request) && slices.Contains(subresources, subresource):
		return nil
	case within && slices.Contains(requestVerbs, request):
		return fmt.Errorf("unknown subresource %q (have %s)", subresource, strings.Join(subresources, ", "))
	default:
		return fmt.Errorf("unknown call %q (have %s); \"wait\" runs the world until an object has a state", verb, strings.Join(Calls(), ", "))
	}
}

// isVerb reports whether a word is the beginning of the verb of a call.
func isVerb(word string) bool {
	request, subresource, _ := strings.Cut(word, "/")
	return slices.ContainsFunc(Calls(), func(verb string) bool {
		return strings.HasPrefix(verb, word) || verb == request && slices.ContainsFunc(subresources, func(known string) bool {
			return strings.HasPrefix(known, subresource)
		})
	})
}
