//! The hollow kubelet.
