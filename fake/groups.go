package fake

import (
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	resourcev1 "k8s.io/api/resource/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	storagev1 "k8s.io/api/storage/v1"
	applyappsv1 "k8s.io/client-go/applyconfigurations/apps/v1"
	applycoordinationv1 "k8s.io/client-go/applyconfigurations/coordination/v1"
	applycorev1 "k8s.io/client-go/applyconfigurations/core/v1"
	applyeventsv1 "k8s.io/client-go/applyconfigurations/events/v1"
	applypolicyv1 "k8s.io/client-go/applyconfigurations/policy/v1"
	applyrbacv1 "k8s.io/client-go/applyconfigurations/rbac/v1"
	applyresourcev1 "k8s.io/client-go/applyconfigurations/resource/v1"
	applyschedulingv1 "k8s.io/client-go/applyconfigurations/scheduling/v1"
	applystoragev1 "k8s.io/client-go/applyconfigurations/storage/v1"
	typedappsv1 "k8s.io/client-go/kubernetes/typed/apps/v1"
	typedcoordinationv1 "k8s.io/client-go/kubernetes/typed/coordination/v1"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	typedeventsv1 "k8s.io/client-go/kubernetes/typed/events/v1"
	typedpolicyv1 "k8s.io/client-go/kubernetes/typed/policy/v1"
	typedrbacv1 "k8s.io/client-go/kubernetes/typed/rbac/v1"
	typedresourcev1 "k8s.io/client-go/kubernetes/typed/resource/v1"
	typedschedulingv1 "k8s.io/client-go/kubernetes/typed/scheduling/v1"
	typedstoragev1 "k8s.io/client-go/kubernetes/typed/storage/v1"
)

// CoreV1 returns the client of the core group.
func (c *Clientset) CoreV1() typedcorev1.CoreV1Interface {
	return coreV1{CoreV1Interface: c.Interface.CoreV1(), c: c}
}

// coreV1 is the client of the core group. The embedded one refuses.
type coreV1 struct {
	typedcorev1.CoreV1Interface
	c *Clientset
}

func (g coreV1) Namespaces() typedcorev1.NamespaceInterface {
	return namespaces{of[*corev1.Namespace, *corev1.NamespaceList, *applycorev1.NamespaceApplyConfiguration](g.c, "namespaces", "")}
}

func (g coreV1) Nodes() typedcorev1.NodeInterface {
	return nodes{of[*corev1.Node, *corev1.NodeList, *applycorev1.NodeApplyConfiguration](g.c, "nodes", "")}
}

func (g coreV1) Pods(namespace string) typedcorev1.PodInterface {
	return pods{of[*corev1.Pod, *corev1.PodList, *applycorev1.PodApplyConfiguration](g.c, "pods", namespace)}
}

func (g coreV1) PersistentVolumes() typedcorev1.PersistentVolumeInterface {
	return of[*corev1.PersistentVolume, *corev1.PersistentVolumeList, *applycorev1.PersistentVolumeApplyConfiguration](g.c, "persistentvolumes", "")
}

func (g coreV1) PersistentVolumeClaims(namespace string) typedcorev1.PersistentVolumeClaimInterface {
	return of[*corev1.PersistentVolumeClaim, *corev1.PersistentVolumeClaimList, *applycorev1.PersistentVolumeClaimApplyConfiguration](g.c, "persistentvolumeclaims", namespace)
}

func (g coreV1) Events(namespace string) typedcorev1.EventInterface {
	return events{of[*corev1.Event, *corev1.EventList, *applycorev1.EventApplyConfiguration](g.c, "events", namespace)}
}

func (g coreV1) Secrets(namespace string) typedcorev1.SecretInterface {
	return of[*corev1.Secret, *corev1.SecretList, *applycorev1.SecretApplyConfiguration](g.c, "secrets", namespace)
}

func (g coreV1) ConfigMaps(namespace string) typedcorev1.ConfigMapInterface {
	return of[*corev1.ConfigMap, *corev1.ConfigMapList, *applycorev1.ConfigMapApplyConfiguration](g.c, "configmaps", namespace)
}

func (g coreV1) ServiceAccounts(namespace string) typedcorev1.ServiceAccountInterface {
	return serviceAccounts{of[*corev1.ServiceAccount, *corev1.ServiceAccountList, *applycorev1.ServiceAccountApplyConfiguration](g.c, "serviceaccounts", namespace)}
}

func (g coreV1) ResourceQuotas(namespace string) typedcorev1.ResourceQuotaInterface {
	return of[*corev1.ResourceQuota, *corev1.ResourceQuotaList, *applycorev1.ResourceQuotaApplyConfiguration](g.c, "resourcequotas", namespace)
}

func (g coreV1) LimitRanges(namespace string) typedcorev1.LimitRangeInterface {
	return of[*corev1.LimitRange, *corev1.LimitRangeList, *applycorev1.LimitRangeApplyConfiguration](g.c, "limitranges", namespace)
}

func (g coreV1) Services(namespace string) typedcorev1.ServiceInterface {
	return services{of[*corev1.Service, *corev1.ServiceList, *applycorev1.ServiceApplyConfiguration](g.c, "services", namespace)}
}

func (g coreV1) Endpoints(namespace string) typedcorev1.EndpointsInterface {
	//lint:ignore SA1019 it is served
	return of[*corev1.Endpoints, *corev1.EndpointsList, *applycorev1.EndpointsApplyConfiguration](g.c, "endpoints", namespace)
}

func (g coreV1) ReplicationControllers(namespace string) typedcorev1.ReplicationControllerInterface {
	r := of[*corev1.ReplicationController, *corev1.ReplicationControllerList, *applycorev1.ReplicationControllerApplyConfiguration](g.c, "replicationcontrollers", namespace)
	return replicationControllers{r, scales(r)}
}

// StorageV1 returns the client of the group storage.k8s.io.
func (c *Clientset) StorageV1() typedstoragev1.StorageV1Interface {
	return storageV1{StorageV1Interface: c.Interface.StorageV1(), c: c}
}

// storageV1 is the client of the group storage.k8s.io. The embedded one refuses.
type storageV1 struct {
	typedstoragev1.StorageV1Interface
	c *Clientset
}

func (g storageV1) StorageClasses() typedstoragev1.StorageClassInterface {
	return of[*storagev1.StorageClass, *storagev1.StorageClassList, *applystoragev1.StorageClassApplyConfiguration](g.c, "storageclasses", "")
}

func (g storageV1) VolumeAttachments() typedstoragev1.VolumeAttachmentInterface {
	return of[*storagev1.VolumeAttachment, *storagev1.VolumeAttachmentList, *applystoragev1.VolumeAttachmentApplyConfiguration](g.c, "volumeattachments", "")
}

func (g storageV1) CSIDrivers() typedstoragev1.CSIDriverInterface {
	return of[*storagev1.CSIDriver, *storagev1.CSIDriverList, *applystoragev1.CSIDriverApplyConfiguration](g.c, "csidrivers", "")
}

func (g storageV1) CSINodes() typedstoragev1.CSINodeInterface {
	return of[*storagev1.CSINode, *storagev1.CSINodeList, *applystoragev1.CSINodeApplyConfiguration](g.c, "csinodes", "")
}

func (g storageV1) CSIStorageCapacities(namespace string) typedstoragev1.CSIStorageCapacityInterface {
	return of[*storagev1.CSIStorageCapacity, *storagev1.CSIStorageCapacityList, *applystoragev1.CSIStorageCapacityApplyConfiguration](g.c, "csistoragecapacities", namespace)
}

func (g storageV1) VolumeAttributesClasses() typedstoragev1.VolumeAttributesClassInterface {
	return of[*storagev1.VolumeAttributesClass, *storagev1.VolumeAttributesClassList, *applystoragev1.VolumeAttributesClassApplyConfiguration](g.c, "volumeattributesclasses", "")
}

// AppsV1 returns the client of the group apps.
func (c *Clientset) AppsV1() typedappsv1.AppsV1Interface {
	return appsV1{AppsV1Interface: c.Interface.AppsV1(), c: c}
}

// appsV1 is the client of the group apps. The embedded one refuses.
type appsV1 struct {
	typedappsv1.AppsV1Interface
	c *Clientset
}

func (g appsV1) StatefulSets(namespace string) typedappsv1.StatefulSetInterface {
	r := of[*appsv1.StatefulSet, *appsv1.StatefulSetList, *applyappsv1.StatefulSetApplyConfiguration](g.c, "statefulsets", namespace)
	return statefulSets{r, scales(r)}
}

func (g appsV1) Deployments(namespace string) typedappsv1.DeploymentInterface {
	r := of[*appsv1.Deployment, *appsv1.DeploymentList, *applyappsv1.DeploymentApplyConfiguration](g.c, "deployments", namespace)
	return deployments{r, scales(r)}
}

func (g appsV1) ReplicaSets(namespace string) typedappsv1.ReplicaSetInterface {
	r := of[*appsv1.ReplicaSet, *appsv1.ReplicaSetList, *applyappsv1.ReplicaSetApplyConfiguration](g.c, "replicasets", namespace)
	return replicaSets{r, scales(r)}
}

func (g appsV1) DaemonSets(namespace string) typedappsv1.DaemonSetInterface {
	return of[*appsv1.DaemonSet, *appsv1.DaemonSetList, *applyappsv1.DaemonSetApplyConfiguration](g.c, "daemonsets", namespace)
}

func (g appsV1) ControllerRevisions(namespace string) typedappsv1.ControllerRevisionInterface {
	return of[*appsv1.ControllerRevision, *appsv1.ControllerRevisionList, *applyappsv1.ControllerRevisionApplyConfiguration](g.c, "controllerrevisions", namespace)
}

// CoordinationV1 returns the client of the group coordination.k8s.io.
func (c *Clientset) CoordinationV1() typedcoordinationv1.CoordinationV1Interface {
	return coordinationV1{CoordinationV1Interface: c.Interface.CoordinationV1(), c: c}
}

// coordinationV1 is the client of the group coordination.k8s.io. The embedded one refuses.
type coordinationV1 struct {
	typedcoordinationv1.CoordinationV1Interface
	c *Clientset
}

func (g coordinationV1) Leases(namespace string) typedcoordinationv1.LeaseInterface {
	return of[*coordinationv1.Lease, *coordinationv1.LeaseList, *applycoordinationv1.LeaseApplyConfiguration](g.c, "leases", namespace)
}

// RbacV1 returns the client of the group rbac.authorization.k8s.io.
func (c *Clientset) RbacV1() typedrbacv1.RbacV1Interface {
	return rbacV1{RbacV1Interface: c.Interface.RbacV1(), c: c}
}

// rbacV1 is the client of the group rbac.authorization.k8s.io. The embedded one refuses.
type rbacV1 struct {
	typedrbacv1.RbacV1Interface
	c *Clientset
}

func (g rbacV1) ClusterRoles() typedrbacv1.ClusterRoleInterface {
	return of[*rbacv1.ClusterRole, *rbacv1.ClusterRoleList, *applyrbacv1.ClusterRoleApplyConfiguration](g.c, "clusterroles", "")
}

func (g rbacV1) ClusterRoleBindings() typedrbacv1.ClusterRoleBindingInterface {
	return of[*rbacv1.ClusterRoleBinding, *rbacv1.ClusterRoleBindingList, *applyrbacv1.ClusterRoleBindingApplyConfiguration](g.c, "clusterrolebindings", "")
}

func (g rbacV1) Roles(namespace string) typedrbacv1.RoleInterface {
	return of[*rbacv1.Role, *rbacv1.RoleList, *applyrbacv1.RoleApplyConfiguration](g.c, "roles", namespace)
}

func (g rbacV1) RoleBindings(namespace string) typedrbacv1.RoleBindingInterface {
	return of[*rbacv1.RoleBinding, *rbacv1.RoleBindingList, *applyrbacv1.RoleBindingApplyConfiguration](g.c, "rolebindings", namespace)
}

// PolicyV1 returns the client of the group policy.
func (c *Clientset) PolicyV1() typedpolicyv1.PolicyV1Interface {
	return policyV1{PolicyV1Interface: c.Interface.PolicyV1(), c: c}
}

// policyV1 is the client of the group policy. The embedded one refuses.
type policyV1 struct {
	typedpolicyv1.PolicyV1Interface
	c *Clientset
}

func (g policyV1) PodDisruptionBudgets(namespace string) typedpolicyv1.PodDisruptionBudgetInterface {
	return of[*policyv1.PodDisruptionBudget, *policyv1.PodDisruptionBudgetList, *applypolicyv1.PodDisruptionBudgetApplyConfiguration](g.c, "poddisruptionbudgets", namespace)
}

// SchedulingV1 returns the client of the group scheduling.k8s.io.
func (c *Clientset) SchedulingV1() typedschedulingv1.SchedulingV1Interface {
	return schedulingV1{SchedulingV1Interface: c.Interface.SchedulingV1(), c: c}
}

// schedulingV1 is the client of the group scheduling.k8s.io. The embedded one refuses.
type schedulingV1 struct {
	typedschedulingv1.SchedulingV1Interface
	c *Clientset
}

func (g schedulingV1) PriorityClasses() typedschedulingv1.PriorityClassInterface {
	return of[*schedulingv1.PriorityClass, *schedulingv1.PriorityClassList, *applyschedulingv1.PriorityClassApplyConfiguration](g.c, "priorityclasses", "")
}

// ResourceV1 returns the client of the group resource.k8s.io.
func (c *Clientset) ResourceV1() typedresourcev1.ResourceV1Interface {
	return resourceV1{ResourceV1Interface: c.Interface.ResourceV1(), c: c}
}

// resourceV1 is the client of the group resource.k8s.io. The embedded one refuses.
type resourceV1 struct {
	typedresourcev1.ResourceV1Interface
	c *Clientset
}

func (g resourceV1) DeviceClasses() typedresourcev1.DeviceClassInterface {
	return of[*resourcev1.DeviceClass, *resourcev1.DeviceClassList, *applyresourcev1.DeviceClassApplyConfiguration](g.c, "deviceclasses", "")
}

func (g resourceV1) ResourceClaims(namespace string) typedresourcev1.ResourceClaimInterface {
	return of[*resourcev1.ResourceClaim, *resourcev1.ResourceClaimList, *applyresourcev1.ResourceClaimApplyConfiguration](g.c, "resourceclaims", namespace)
}

func (g resourceV1) ResourceSlices() typedresourcev1.ResourceSliceInterface {
	return of[*resourcev1.ResourceSlice, *resourcev1.ResourceSliceList, *applyresourcev1.ResourceSliceApplyConfiguration](g.c, "resourceslices", "")
}

// EventsV1 returns the client of the group events.k8s.io.
func (c *Clientset) EventsV1() typedeventsv1.EventsV1Interface {
	return eventsV1{EventsV1Interface: c.Interface.EventsV1(), c: c}
}

// eventsV1 is the client of the group events.k8s.io. The embedded one refuses.
type eventsV1 struct {
	typedeventsv1.EventsV1Interface
	c *Clientset
}

func (g eventsV1) Events(namespace string) typedeventsv1.EventInterface {
	return of[*eventsv1.Event, *eventsv1.EventList, *applyeventsv1.EventApplyConfiguration](g.c, "events.events.k8s.io", namespace)
}
