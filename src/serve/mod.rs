//! HTTP in front of the embedded cluster.
