// Package pluginmanager is a kubelet's way of learning of plugins, such as CSI drivers: each announces itself at a socket in a
// directory of the kubelet's, is asked there what it is, and is told whether it was taken in. When its socket goes, so does it.
//
// A [Manager] is part of the kubelet's component. It looks at a socket when it is told that something may have changed there
// ([Manager.Notify]), and brings what is registered in line with what is there by then: it goes by what it sees, not by what it is
// told, so that it does not matter in which order it is told. A socket that was made anew is another one: the plugin of the old
// one is deregistered first. Each socket is looked at in a strand of its own, one look after the other, so that a plugin that
// hangs holds up itself; what fails is tried again after a while. What registering means for a type of plugins is a
// [plugins.Registrar]'s affair.
//
// What sockets there are, and who answers at them, are [Sockets]: those of this machine ([Unix]), or some in memory ([Memory]),
// which is all that a stepped world has. Of a directory of this machine [Manager.Watch] tells, on a goroutine of its own, as the
// file system tells it.
//
// Upstream: pkg/kubelet/pluginmanager, its pluginwatcher, reconciler and operationexecutor (v1.36).
package pluginmanager
