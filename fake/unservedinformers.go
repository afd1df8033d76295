package fake

import (
	"sync"

	"k8s.io/client-go/informers"
	"k8s.io/client-go/informers/apiserverinternal"
	"k8s.io/client-go/informers/certificates"
	"k8s.io/client-go/informers/discovery"
	eventinformers "k8s.io/client-go/informers/events"
	"k8s.io/client-go/informers/extensions"
	"k8s.io/client-go/informers/flowcontrol"
	"k8s.io/client-go/informers/node"
	"k8s.io/client-go/informers/storagemigration"
)

// unservedInformers answers the methods of a factory that this package does not know.
var unservedInformers = sync.OnceValue(func() informers.SharedInformerFactory {
	return informers.NewSharedInformerFactory(unservedClient(), 0)
})

// ofUnserved returns the informers of what the server lacks, which never sync.
func (f *factory) ofUnserved() informers.SharedInformerFactory {
	if f.unserved == nil {
		f.unserved = informers.NewSharedInformerFactory(unservedClient(), 0)
	}
	return f.unserved
}

// Internal returns the informers of the group internal.apiserver.k8s.io, which never sync.
func (f *factory) Internal() apiserverinternal.Interface { return f.ofUnserved().Internal() }

// Certificates returns the informers of the group certificates.k8s.io, which never sync.
func (f *factory) Certificates() certificates.Interface { return f.ofUnserved().Certificates() }

// Discovery returns the informers of the group discovery.k8s.io, which never sync.
func (f *factory) Discovery() discovery.Interface { return f.ofUnserved().Discovery() }

// Events returns the informers of the group events.k8s.io, which never sync.
func (f *factory) Events() eventinformers.Interface { return f.ofUnserved().Events() }

// Extensions returns the informers of the group extensions, which never sync.
func (f *factory) Extensions() extensions.Interface { return f.ofUnserved().Extensions() }

// Flowcontrol returns the informers of the group flowcontrol.apiserver.k8s.io, which never sync.
func (f *factory) Flowcontrol() flowcontrol.Interface { return f.ofUnserved().Flowcontrol() }

// Node returns the informers of the group node.k8s.io, which never sync.
func (f *factory) Node() node.Interface { return f.ofUnserved().Node() }

// Storagemigration returns the informers of the group storagemigration.k8s.io, which never sync.
func (f *factory) Storagemigration() storagemigration.Interface {
	return f.ofUnserved().Storagemigration()
}
