<?php
header('Content-Type: text/plain');
echo "pong\n";
