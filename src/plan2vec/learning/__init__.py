"""What learning needs: frames as tensors, networks, the only gradient loop, several processes."""
