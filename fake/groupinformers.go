package fake

import (
	"k8s.io/client-go/informers/core"
	coreinformers "k8s.io/client-go/informers/core/v1"
	"k8s.io/client-go/informers/storage"
	storageinformers "k8s.io/client-go/informers/storage/v1"
	corelisters "k8s.io/client-go/listers/core/v1"
	storagelisters "k8s.io/client-go/listers/storage/v1"
	"k8s.io/client-go/tools/cache"
)

// The informers of a factory, as client-go's groups return them. Those of the usual kinds are found
// by kind: client-go's make an empty object for each call, and a process that starts makes many.

// coreGroup is the core group of a factory.
type coreGroup struct {
	core.Interface // of later versions
	v1             coreV1Informers
}

func (g *coreGroup) V1() coreinformers.Interface { return &g.v1 }

// coreV1Informers are the informers of the core group.
type coreV1Informers struct {
	coreinformers.Interface // those of other kinds
	factory                 *factory
}

// storageGroup is the group storage.k8s.io of a factory.
type storageGroup struct {
	storage.Interface // of other versions
	v1                storageV1Informers
}

func (g *storageGroup) V1() storageinformers.Interface { return &g.v1 }

// storageV1Informers are the informers of the group storage.k8s.io in version 1.
type storageV1Informers struct {
	storageinformers.Interface // those of other kinds
	factory                    *factory
}

// Core returns the informers of the core group.
func (f *factory) Core() core.Interface {
	if g := &f.core; g.Interface == nil {
		g.Interface = core.New(f, "", nil)
		g.v1 = coreV1Informers{g.Interface.V1(), f}
	}
	return &f.core
}

// Storage returns the informers of the group storage.k8s.io.
func (f *factory) Storage() storage.Interface {
	if g := &f.storage; g.Interface == nil {
		g.Interface = storage.New(f, "", nil)
		g.v1 = storageV1Informers{g.Interface.V1(), f}
	}
	return &f.storage
}

// Kinds of informers that most processes have.
var (
	podKind        = kindsByID["pods"]
	nodeKind       = kindsByID["nodes"]
	namespaceKind  = kindsByID["namespaces"]
	claimKind      = kindsByID["persistentvolumeclaims"]
	volumeKind     = kindsByID["persistentvolumes"]
	classKind      = kindsByID["storageclasses"]
	attachmentKind = kindsByID["volumeattachments"]
	csiDriverKind  = kindsByID["csidrivers"]
	csiNodeKind    = kindsByID["csinodes"]
)

func (g *coreV1Informers) Pods() coreinformers.PodInformer { return podInformer{g.factory} }

type podInformer struct{ *factory }

func (i podInformer) Informer() cache.SharedIndexInformer { return i.informerOf(podKind) }

func (i podInformer) Lister() corelisters.PodLister {
	return corelisters.NewPodLister(i.Informer().GetIndexer())
}

func (g *coreV1Informers) Nodes() coreinformers.NodeInformer { return nodeInformer{g.factory} }

type nodeInformer struct{ *factory }

func (i nodeInformer) Informer() cache.SharedIndexInformer { return i.informerOf(nodeKind) }

func (i nodeInformer) Lister() corelisters.NodeLister {
	return corelisters.NewNodeLister(i.Informer().GetIndexer())
}

func (g *coreV1Informers) Namespaces() coreinformers.NamespaceInformer {
	return namespaceInformer{g.factory}
}

type namespaceInformer struct{ *factory }

func (i namespaceInformer) Informer() cache.SharedIndexInformer { return i.informerOf(namespaceKind) }

func (i namespaceInformer) Lister() corelisters.NamespaceLister {
	return corelisters.NewNamespaceLister(i.Informer().GetIndexer())
}

func (g *coreV1Informers) PersistentVolumeClaims() coreinformers.PersistentVolumeClaimInformer {
	return claimInformer{g.factory}
}

type claimInformer struct{ *factory }

func (i claimInformer) Informer() cache.SharedIndexInformer { return i.informerOf(claimKind) }

func (i claimInformer) Lister() corelisters.PersistentVolumeClaimLister {
	return corelisters.NewPersistentVolumeClaimLister(i.Informer().GetIndexer())
}

func (g *coreV1Informers) PersistentVolumes() coreinformers.PersistentVolumeInformer {
	return volumeInformer{g.factory}
}

type volumeInformer struct{ *factory }

func (i volumeInformer) Informer() cache.SharedIndexInformer { return i.informerOf(volumeKind) }

func (i volumeInformer) Lister() corelisters.PersistentVolumeLister {
	return corelisters.NewPersistentVolumeLister(i.Informer().GetIndexer())
}

func (g *storageV1Informers) StorageClasses() storageinformers.StorageClassInformer {
	return classInformer{g.factory}
}

type classInformer struct{ *factory }

func (i classInformer) Informer() cache.SharedIndexInformer { return i.informerOf(classKind) }

func (i classInformer) Lister() storagelisters.StorageClassLister {
	return storagelisters.NewStorageClassLister(i.Informer().GetIndexer())
}

func (g *storageV1Informers) VolumeAttachments() storageinformers.VolumeAttachmentInformer {
	return attachmentInformer{g.factory}
}

type attachmentInformer struct{ *factory }

func (i attachmentInformer) Informer() cache.SharedIndexInformer { return i.informerOf(attachmentKind) }

func (i attachmentInformer) Lister() storagelisters.VolumeAttachmentLister {
	return storagelisters.NewVolumeAttachmentLister(i.Informer().GetIndexer())
}

func (g *storageV1Informers) CSIDrivers() storageinformers.CSIDriverInformer {
	return csiDriverInformer{g.factory}
}

type csiDriverInformer struct{ *factory }

func (i csiDriverInformer) Informer() cache.SharedIndexInformer { return i.informerOf(csiDriverKind) }

func (i csiDriverInformer) Lister() storagelisters.CSIDriverLister {
	return storagelisters.NewCSIDriverLister(i.Informer().GetIndexer())
}

func (g *storageV1Informers) CSINodes() storageinformers.CSINodeInformer {
	return csiNodeInformer{g.factory}
}

type csiNodeInformer struct{ *factory }

func (i csiNodeInformer) Informer() cache.SharedIndexInformer { return i.informerOf(csiNodeKind) }

func (i csiNodeInformer) Lister() storagelisters.CSINodeLister {
	return storagelisters.NewCSINodeLister(i.Informer().GetIndexer())
}
