components: pvcontroller, provisioner
definitions: widgets.yaml
ends: differ
user alice
  apply {"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":"web"},"spec":{"size":"1Gi"}}
  patch widget web spec.size=2Gi spec.replicas=3
schedule
  8 hold: operator/cache persistentvolumeclaims
violates: one-claim

   2  alice creates widget default/web (rv 8)
   5  operator creates claim default/web-2k2lv of 1Gi (rv 9)
   8  >> the claim cache of operator is held until step 69
   8  operator changes widget default/web: status.claims=0 (rv 10)
  11  pvcontroller requests provisioning of claim default/web-2k2lv by array.csi.volsim.dev (rv 11)
  18  provisioner has the driver create a volume pvc-8ff34785
  19  provisioner creates volume pvc-8ff34785 of 1Gi for claim default/web-2k2lv (rv 13)
  26  operator lists the claims of default in its cache: none found (rv 7); it has not seen step 5, where it created claim default/web-2k2lv itself, and step 11, where pvcontroller changed claim default/web-2k2lv
  27  operator creates claim default/web-rtrwh of 1Gi (rv 15)
  32  pvcontroller marks volume pvc-8ff34785 Bound (rv 16)
  35  pvcontroller binds claim default/web-2k2lv to volume pvc-8ff34785 (rv 17)
  38  pvcontroller marks claim default/web-2k2lv Bound (rv 18)
  47  pvcontroller requests provisioning of claim default/web-rtrwh by array.csi.volsim.dev (rv 20)
  51  provisioner has the driver create a volume pvc-08d12e6b
  52  provisioner creates volume pvc-08d12e6b of 1Gi for claim default/web-rtrwh (rv 21)
  65  pvcontroller marks volume pvc-08d12e6b Bound (rv 25)
  68  pvcontroller binds claim default/web-rtrwh to volume pvc-08d12e6b (rv 26)
  69  the claim cache of operator sees step 5 only now
  72  the claim cache of operator sees step 11 only now
  78  pvcontroller marks claim default/web-rtrwh Bound (rv 27)
  85  operator changes widget default/web: status.claims 0 → 2 (rv 28)
  91  alice changes widget default/web: spec.replicas=3, spec.size 1Gi → 2Gi (rv 29)
violation: one-claim: two claims of one widget: there are 2

stale-list-at-rest
  alice
  │        API server
  │        │        operator
  │        │        │        pvcontroller
  │        │        │        │        provisioner
  │        │        │        │        │        driver
  o───────>8        │        │        │        │       2  alice creates widget default/web
  │        9  <─────o        │        │        │       5  operator creates claim default/web-2k2lv of 1Gi
  │        │        │        │        │        │          the claim cache of operator is held until step 69
  │        10 <─────o        │        │        │       8  operator changes widget default/web: status.claims=0
  │        │        │        │        │        │            cache of operator: claim default/web-2k2lv is absent; actual state: Pending
  │        11 <──────────────o        │        │      11  pvcontroller requests provisioning of claim default/web-2k2lv by array.csi.volsim.dev
  │        │        │        │        o───────>│      18  provisioner has the driver create a volume: pvc-8ff34785
  │        13 <───────────────────────o        │      19  provisioner creates volume pvc-8ff34785 of 1Gi for claim default/web-2k2lv
  │        │        │        │        │        │      26  operator lists the claims of default in its cache: none found (rv 7); it has not seen step 5, where it created claim default/web-2k2lv itself, and step 11, where pvcontroller changed claim default/web-2k2lv
  │        15 <─────o        │        │        │      27  operator creates claim default/web-rtrwh of 1Gi
  │        │        │        │        │        │            cache of operator: claim default/web-2k2lv is absent; actual state: Pending
  │        16 <──────────────o        │        │      32  pvcontroller marks volume pvc-8ff34785 Bound
  │        17 <──────────────o        │        │      35  pvcontroller binds claim default/web-2k2lv to volume pvc-8ff34785
  │        18 <──────────────o        │        │      38  pvcontroller marks claim default/web-2k2lv Bound
  │        20 <──────────────o        │        │      47  pvcontroller requests provisioning of claim default/web-rtrwh by array.csi.volsim.dev
  │        │        │        │        o───────>│      51  provisioner has the driver create a volume: pvc-08d12e6b
  │        21 <───────────────────────o        │      52  provisioner creates volume pvc-08d12e6b of 1Gi for claim default/web-rtrwh
  │        25 <──────────────o        │        │      65  pvcontroller marks volume pvc-08d12e6b Bound
  │        26 <──────────────o        │        │      68  pvcontroller binds claim default/web-rtrwh to volume pvc-08d12e6b
  │        │        !9       │        │        │
  │        │        !11      │        │        │
  │        27 <──────────────o        │        │      78  pvcontroller marks claim default/web-rtrwh Bound
  │        28 <─────o        │        │        │      85  operator changes widget default/web: status.claims 0 → 2
  o───────>29       │        │        │        │      91  alice changes widget default/web: spec.replicas=3, spec.size 1Gi → 2Gi
violation: one-claim: two claims of one widget: there are 2
o acts; left: resourceVersions, right: steps; !7 sees 7 after acting without it

stale-list-at-rest
Claims
  default/web-2k2lv ·······|Pending──────────────────────|Bound─────────────────────────────────────────────────────────
  default/web-rtrwh ······················|Pending──────────────────────────────|Bound──────────────────────────────────
Volumes
  pvc-8ff34785      ···············|Pending───────|Bound────────────────────────────────────────────────────────────────
  pvc-08d12e6b      ·············································|──────|Bound──────────────────────────────────────────
Widgets
  default/web       |exists─────────────────────────────────────────────────────────────────────────────────────────────
                                                                                                               ^ invariant violated here
violation: one-claim: two claims of one widget: there are 2
